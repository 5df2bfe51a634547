package cli

import (
	"context"
	"io/fs"
	"os"
	"time"

	"bourn/api"
	"bourn/internal/run"

	"github.com/spf13/cobra"
)

// answerWithin is how long a control plane has for an answer that is not read as it comes.
// A verification reads the whole log.
const answerWithin = 10 * time.Minute

// control returns a client of the control plane of $BOURN_HOME. None running is
// ErrUnavailable.
func (a *app) control(cmd *cobra.Command) (*api.Client, error) {
	h, err := a.controlHome(cmd)
	if err != nil {
		return nil, err
	}
	return a.controlOf(h)
}

func (a *app) controlOf(h *run.Home) (*api.Client, error) {
	at := h.Socket()
	if info, err := os.Lstat(at); err != nil || info.Mode().Type() != fs.ModeSocket {
		return nil, errNoControl
	}
	return api.NewSocketClient(at), nil
}

// answering returns a context for one answer.
func answering() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), answerWithin)
}
