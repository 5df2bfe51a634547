package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"bourn/internal/policy"
)

// A granted name that does not resolve is told, with what the resolver says and not who it is;
// one that does, or whose asker has gone, is not.
func TestUnresolvedIsTold(t *testing.T) {
	var mu sync.Mutex
	var told []string
	s := Serve(Config{Network: network(t, "none.example slow.example here.example"), Unresolved: func(name, why string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, name+": "+why)
	}, Resolve: func(ctx context.Context, name string) ([]netip.Addr, error) {
		switch name {
		case "here.example":
			return []netip.Addr{netip.MustParseAddr(public)}, nil
		case "slow.example":
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, &net.DNSError{Err: "no such host", Name: name, Server: "192.0.2.53:53", IsNotFound: true}
	}}, Listeners{})
	defer s.Close()
	ask := func(ctx context.Context, name string) error {
		_, err := s.addresses(ctx, policy.Target{Name: name, Port: 443})
		return err
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ask(t.Context(), "here.example"); err != nil {
		t.Error(err)
	}
	if err := ask(gone, "slow.example"); !errors.Is(err, context.Canceled) {
		t.Errorf("slow.example: %v", err)
	}
	for _, name := range []string{"none.example", "other.example"} {
		if err := ask(t.Context(), name); err == nil {
			t.Errorf("%s has an address", name)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"none.example: no such host"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
