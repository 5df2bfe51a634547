package store_test

import (
	"strings"
	"testing"
	"time"

	"bourn"
	"bourn/internal/store"
	"bourn/internal/store/storetest"
)

func TestAgentTokens(t *testing.T) {
	db := storetest.New(t)
	ann, ben := store.NewMemberID(), store.NewMemberID()
	of := store.AgentToken{Name: "editor", Member: ann, Agent: "mur", Dir: "/srv/app", Expires: time.Now().Add(time.Hour)}
	good, kept, err := db.NewAgentToken(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	of.Expires = time.Now().Add(-time.Second)
	expired, _, err := db.NewAgentToken(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	got, err := db.CheckAgentToken(t.Context(), good)
	if err != nil || got.ID != kept.ID || got.Member != ann || got.Agent != "mur" || got.Dir != "/srv/app" {
		t.Errorf("%+v, %v", got, err)
	}
	if !store.LooksLikeAgentToken(good) || store.LooksLikeDiagnosticsToken(good) {
		t.Errorf("the token does not look like one")
	}
	for _, bad := range []string{"", store.AgentPrefix, expired, good + "x", strings.ToUpper(good), good[len(store.AgentPrefix):]} {
		if _, err := db.CheckAgentToken(t.Context(), bad); bourn.CodeOf(err) != bourn.CodeDenied {
			t.Errorf("%q: got %v, want denied", bad, err)
		}
	}
	if _, err := db.CheckDiagnosticsToken(t.Context(), good); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Errorf("it is taken for another kind of token: %v", err)
	}
	if all, err := db.AgentTokens(t.Context(), ann); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := db.AgentTokens(t.Context(), ben); err != nil || len(all) != 0 {
		t.Errorf("another member's: %v, %v", all, err)
	}
	if err := db.RevokeAgentToken(t.Context(), ben, kept.ID); bourn.CodeOf(err) != bourn.CodeNotFound {
		t.Errorf("another member revokes it: %v", err)
	}
	if err := db.RevokeAgentToken(t.Context(), ann, kept.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := db.CheckAgentToken(t.Context(), good); bourn.CodeOf(err) != bourn.CodeDenied {
		t.Errorf("a revoked token: %v", err)
	}
}
