package daemon

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// maxLarge is how many large answers a member has at once: each is held until they have read it.
const maxLarge = 4

// large makes an operation one whose answers are large. A member who has as many as there may be
// waits for one of them to be read, and nobody else does.
func (s *server) large(op huma.Operation) huma.Operation {
	op.Middlewares = append(op.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
		p := principalOf(ctx.Context())
		if p.member == nil {
			next(ctx) // and is refused
			return
		}
		kept, _ := s.largeOf.LoadOrStore(p.member.ID, make(chan struct{}, maxLarge))
		places := kept.(chan struct{})
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next(ctx)
		case <-ctx.Context().Done():
			_ = huma.WriteErr(s.api, ctx, http.StatusServiceUnavailable, "the control plane has no room for the answer") // the caller has gone away, then
		}
	})
	return op
}
