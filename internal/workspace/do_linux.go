package workspace

import (
	"context"
	"fmt"

	"bourn"
)

// do performs a request that was reviewed.
func (w *work) do(ctx context.Context) (any, error) {
	switch w.request.Verb {
	case Read:
		return w.read()
	case List, Find:
		return w.list(ctx)
	case Inspect:
		return w.inspect()
	case Search:
		return w.search(ctx)
	case Write:
		return w.write()
	case Edit:
		return w.edit()
	case Patch:
		return w.patch()
	case Delete:
		return w.delete()
	case Move:
		return w.move(ctx)
	case Exec:
		return w.exec(ctx)
	case Share:
		return w.share(ctx)
	case Git:
		return w.git(ctx)
	case Delegate:
		return w.delegate()
	case RecordsRead, RecordsWrite: // the control plane's to perform
	}
	return nil, fmt.Errorf("%w: no verb %q", bourn.ErrInvalid, w.request.Verb)
}
