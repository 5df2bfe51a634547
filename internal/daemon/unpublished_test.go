package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bourn/api"
	"bourn/internal/review"
)

// Hard blocks that are stored and cannot be published are not said to be saved and well: runs
// do not have them. They get them once they can be.
func TestBoundariesUnpublished(t *testing.T) {
	p := begin(t)
	at := filepath.Join(p.config.Home, review.SnapshotName)
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at, 0o700); err != nil { // nothing can be moved there
		t.Fatal(err)
	}
	if a := p.set(0, rules); a.status != 503 || !strings.Contains(a.body, "version 1 of the hard blocks is stored, and runs do not have it yet") {
		t.Errorf("%d %s", a.status, a.body)
	}
	boundaries := func() api.Component {
		var h api.Health
		p.get("/v1/health", &h)
		for _, part := range h.Components {
			if part.Name == "boundaries" {
				return part
			}
		}
		t.Fatal("health says nothing of the hard blocks")
		return api.Component{}
	}
	if part := boundaries(); part.Status != "degraded" || !strings.Contains(part.Detail, "runs do not have it yet") || part.Hint == "" {
		t.Errorf("%+v", part)
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	until(t, 20*time.Second, "it is published", func() bool { return boundaries().Status == "ok" })
	if b, version, err := p.published(); version != 1 || err != nil || len(b.HardBlocks) != 1 {
		t.Errorf("version %d, %+v, %v", version, b, err)
	}
}
