package mcp

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of what a client is told of a call's progress.
const (
	tellEvery = 100 * time.Millisecond
	maxTold   = 4 << 10 // bytes of output in one notification: the newest
)

// A progress tells a client that asked for it how a call goes: how many bytes of output
// there are, with the newest of them. Between two notifications passes some time, so that a
// command that prints a lot costs its client little; the result has the output.
type progress struct {
	ctx     context.Context
	session *sdk.ServerSession
	token   any
	bytes   float64
	newest  []byte
	last    time.Time
}

func newProgress(ctx context.Context, session *sdk.ServerSession, token any) *progress {
	return &progress{ctx: ctx, session: session, token: token}
}

// tell is told output, one piece after another.
func (p *progress) tell(output []byte) {
	p.bytes += float64(len(output))
	p.newest = append(p.newest, output[max(0, len(output)-maxTold):]...)
	p.newest = p.newest[max(0, len(p.newest)-maxTold):]
	now := time.Now()
	if p.ctx.Err() != nil || now.Sub(p.last) < tellEvery {
		return
	}
	p.last = now
	// A client that has gone has its call cancelled by whoever reads from it.
	_ = p.session.NotifyProgress(p.ctx, &sdk.ProgressNotificationParams{ProgressToken: p.token, Progress: p.bytes, Message: asText(p.newest)})
	p.newest = p.newest[:0]
}

// asText is output as a text: what is cut at an end, or is none, is U+FFFD.
func asText(b []byte) string {
	for len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
