package rowsec

import (
	"maps"
	"slices"
	"strings"
)

// commands are those that a policy is about, by pg_policy.polcmd.
var commands = []struct{ code, name string }{{"r", "SELECT"}, {"a", "INSERT"}, {"w", "UPDATE"}, {"d", "DELETE"}}

func (p policy) is(command string) bool { return p.Command == "*" || p.Command == command }

// findings are the mistakes in the policies, indexes and keys of every table.
func (s *schema) findings() []Finding {
	var all []Finding
	for _, t := range s.tables {
		if !t.Security {
			continue // which is a finding of its own
		}
		report := func(code, object, what, mend string) {
			if object != "" {
				object = " " + object
			}
			all = append(all, Finding{code, t.Name + object, what, mend})
		}
		s.gates(t, report)
		for _, p := range t.policies {
			s.policy(t, p, report)
		}
		s.checks(t, report)
		s.indexes(t, report)
	}
	return all
}

type reporter func(code, object, what, mend string)

// gates sees that nothing is visible without a session, and nothing written by one that only reads.
func (s *schema) gates(t *table, report reporter) {
	var open []string
	public := false
	for _, c := range commands {
		for _, p := range t.policies {
			if !p.Permissive || !p.forMembers || !p.is(c.code) || s.gated(t, p, c.code, s.isGate) {
				continue
			}
			open = append(open, c.name)
			public = public || slices.Contains(p.Roles, 0) && s.hasGate(t, c.code)
			break
		}
	}
	const gate = "create policy session on %t as restrictive using ((select auth.me()) is not null) with check ((select auth.me()) is not null)"
	switch {
	case public:
		report("public_policy", "", "a policy to public for "+strings.Join(open, ", ")+" is wider than the gate", strings.ReplaceAll(gate, "%t", t.Name)+", to no role by name")
	case len(open) > 0:
		report("no_session_gate", "", "no restrictive policy asks for a session at "+strings.Join(open, ", "), strings.ReplaceAll(gate, "%t", t.Name))
	}
	for _, c := range []struct {
		code, name string
		granted    bool
		form       string
	}{
		{"a", "insert", t.Inserts, "with check ((select auth.may_write()))"},
		{"w", "update", t.Updates, "using ((select auth.may_write())) with check ((select auth.may_write()))"},
	} {
		writes := func(n *node) bool { return n.tells(s.write) }
		for _, p := range t.policies {
			if c.granted && p.Permissive && p.forMembers && p.is(c.code) && !s.gated(t, p, c.code, writes) {
				report("no_write_gate", "", "no restrictive policy for "+c.name+" asks whether the session may write",
					"create policy may_"+c.name+" on "+t.Name+" as restrictive for "+c.name+" "+c.form)
				break
			}
		}
	}
}

// gated reports whether a restrictive policy whose conditions pass isGate binds everybody that a
// permissive one is for.
func (s *schema) gated(t *table, p policy, command string, isGate func(*node) bool) bool {
	return slices.ContainsFunc(t.policies, func(g policy) bool {
		if g.Permissive || !g.is(command) || !slices.Contains(g.Roles, 0) && !s.covers(g.Roles, p.Roles) {
			return false
		}
		// What is read or changed is asked of USING; what is written of WITH CHECK, or of USING where there is none.
		reads := g.qual != nil && slices.ContainsFunc(g.qual.conjuncts(), isGate)
		writes := reads
		if g.with != nil {
			writes = slices.ContainsFunc(g.with.conjuncts(), isGate)
		}
		switch command {
		case "a":
			return writes
		case "w":
			return reads && writes
		}
		return reads
	})
}

func (s *schema) hasGate(t *table, command string) bool {
	return slices.ContainsFunc(t.policies, func(g policy) bool {
		return !g.Permissive && g.is(command) && g.qual != nil && slices.ContainsFunc(g.qual.conjuncts(), s.isGate)
	})
}

// covers reports whether every role of a policy that members come in as is one of the gate's.
func (s *schema) covers(gate, roles []int64) bool {
	for _, r := range roles {
		if s.open[r] && !slices.Contains(gate, r) {
			return false
		}
	}
	return true
}

// isGate reports whether a condition is true only with a session.
func (s *schema) isGate(n *node) bool {
	switch n.label {
	case nullTest:
		return n.word("nulltesttype") == "1" && slices.ContainsFunc(n.in("arg"), func(arg *node) bool { return arg.tells(s.me) })
	case operator: // a comparison with null is not true
		return s.equals(n, s.me) != 0
	case sublink, funcCall:
		return n.tells(s.sure)
	}
	return false
}

// policy sees to one policy that is for members.
func (s *schema) policy(t *table, p policy, report reporter) {
	if !p.forMembers {
		return
	}
	for _, c := range []struct {
		tree *node
		word string
	}{{p.qual, "USING"}, {p.with, "WITH CHECK"}} {
		if c.tree == nil {
			continue
		}
		if p.Permissive && c.tree.isTrue() {
			report("policy_true", p.Name, c.word+" is true", "say what makes a row visible; where it is the session alone, (select auth.me()) is not null")
		}
		if forged := s.forgeable(c.tree); forged != "" {
			report("policy_forgeable", p.Name, "it decides by "+forged, "compare with (select auth.me()), which no SQL can change")
		}
		s.speed(p, c.tree, report)
	}
}

// forgeable names what an expression decides by that any SQL can change.
func (s *schema) forgeable(tree *node) string {
	switch {
	case tree.calls(s.settings):
		return "a setting"
	case tree.has(func(n *node) bool { return n.label == sqlValue && currentRole[n.word("op")] }):
		return "current_user, which SET ROLE changes"
	}
	return ""
}

// currentRole are the values of SQLValueFunctionOp for current_role, current_user and user.
var currentRole = map[string]bool{"9": true, "10": true, "11": true}

// speed finds what is evaluated for each row and need not be.
func (s *schema) speed(p policy, tree *node, report reporter) {
	perRow := map[string]int{}
	slow := false
	var walk func(n *node)
	walk = func(n *node) {
		n.each(0, func(n *node, depth int) bool {
			switch {
			case n.label == sublink && n.word("subLinkType") == anySublink:
				if n.queryReadsOutside() {
					return true
				}
				slow = true // its query runs once a statement, and is looked up in for each row
				for _, left := range n.in("testexpr") {
					walk(left)
				}
				return false
			case n.label == sublink && !n.readsOutside():
				return false // an InitPlan: once a statement
			case n.label == funcCall:
				if f, ours := s.functions[n.number("funcid")]; ours && (f.Volatility != "i" || f.Args == 0) {
					perRow[f.Name] = f.Args
				}
			}
			return true
		})
	}
	walk(tree)
	for _, name := range slices.Sorted(maps.Keys(perRow)) {
		mend := "write (select " + name + "())"
		if perRow[name] > 0 {
			mend = "put its condition on columns into the policy, and what it asks of the session into (select …)"
		}
		report("policy_per_row", p.Name, name+"() is called for each row", mend)
	}
	if slow {
		report("policy_in_subselect", p.Name, "it asks in (select …)", "write = any ((select auth.my_circles())::uuid[]), or a function that returns the array")
	}
}

// queryReadsOutside reports whether the query of x in (select …) reads what is around it.
func (n *node) queryReadsOutside() bool {
	q := &node{label: sublink, fields: []field{{nodes: n.in("subselect")}}}
	return q.readsOutside()
}
