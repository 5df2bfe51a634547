package daemon

import (
	"context"

	"bourn"
	"bourn/internal/policy"
	"bourn/internal/tool/tier"
	"bourn/internal/workspace"
)

// Records are a door: governed tools reach them outside the seal, as the member whose agent it
// is. The agent's profile opens it, or a flag of the run's, and a run that works for another
// has no more of it than that one.

// recordsAllowed returns how a run may use the company's records: readOnly, or to write too. An
// error is a refusal, with what to ask a person for. The profile is read again, as for every
// rule of a governed tool.
func (g *gate) recordsAllowed(run *gatedRun) (readOnly bool, err error) {
	switch has, err := g.recordsOf(run); {
	case err != nil:
		return true, err
	case has == policy.RecordsWrite:
		return false, nil
	case has == policy.RecordsRead:
		return true, nil
	}
	return true, noRecords(run)
}

// noRecords is the refusal of a run that has no records.
func noRecords(run *gatedRun) error {
	hint := "ask a person, who may start the run with --records read, or --records write"
	switch {
	case run.child != nil:
		hint = "do without it, and say so in what you answer"
	case run.agent != "":
		hint = "ask a person, who may write in the profile of agent " + string(run.agent) + ": records: read"
	}
	return &workspace.Problem{Code: bourn.CodeDenied, Reason: "records_not_granted", Text: "the company's records are not open to this run", Hint: hint}
}

// recordsOf returns what a run has of records: what its flag and its profile say, and of a run
// that works for another what both have.
func (g *gate) recordsOf(run *gatedRun) (policy.Records, error) {
	if run.child == nil {
		own, err := g.policies.recordsOf(run.agent)
		if err != nil || own.Holds(run.flag) {
			return own, err
		}
		return run.flag.Less(policy.RecordsWrite), nil
	}
	has, err := g.recordsOf(run.child.of)
	if err != nil {
		return policy.RecordsNone, err
	}
	if run.agent != run.child.of.agent {
		own, err := g.policies.recordsOf(run.agent)
		if err != nil {
			return policy.RecordsNone, err
		}
		has = has.Less(own)
	}
	if left := run.child.records; left != "" {
		has = has.Less(policy.Records(left)) // none is nothing that is known, and so nothing
	}
	return has, nil
}

// recordsOf returns what an agent's profile says of records; a run without one has none.
func (p *policies) recordsOf(name bourn.AgentName) (policy.Records, error) {
	has, err := p.latest(name)
	return has.records, err
}

// opens reports whether the door that a tool needs is open to a run: one that is not is not
// offered.
func (g *gate) opens(run *gatedRun, name string) bool {
	if !tier.NeedsRecords(name) {
		return true
	}
	readOnly, err := g.recordsAllowed(run)
	return err == nil && (!readOnly || tier.Reads(name))
}

// closed refuses what a run may not do with records, and returns how it may do the rest; what
// works on none of them it lets pass.
func (g *gate) closed(run *gatedRun, request workspace.Request) (readOnly bool, err error) {
	if !request.Verb.OfRecords() {
		return true, nil
	}
	readOnly, err = g.recordsAllowed(run)
	if err == nil && readOnly && !tier.Reads(request.Tool) {
		err = &workspace.Problem{Code: bourn.CodeDenied, Reason: "records_read_only", Text: "the company's records are open to this run to read alone",
			Hint: "do without it, and say so in what you answer; a person can grant records: write"}
	}
	return readOnly, err
}

// performRecords does what was reviewed with records: SQL on a connection of the run's own,
// what the typed tools do as fixed statements. Who may still do so is asked anew.
func (g *gate) performRecords(ctx context.Context, run *gatedRun, request workspace.Request, result *workspace.Raw) error {
	readOnly, err := g.closed(run, request)
	if err != nil {
		return err
	}
	if request.Tool == tier.RecordsQuery {
		return g.runSQL(ctx, run, readOnly, request, result)
	}
	return g.runRecords(ctx, run, readOnly, request, result)
}
