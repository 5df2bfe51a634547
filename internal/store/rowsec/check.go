package rowsec

import (
	"maps"
	"slices"
)

// writing returns what holds for a row that a permissive policy lets be written: its own
// WITH CHECK, or USING where there is none, and those of the restrictive ones.
func (t *table) writing(p policy, command string) []*node {
	check := func(p policy) *node {
		if p.with != nil {
			return p.with
		}
		return p.qual
	}
	all := []*node{check(p)}
	for _, r := range t.policies {
		if !r.Permissive && r.is(command) && (slices.Contains(r.Roles, 0) || slices.Equal(r.Roles, p.Roles)) {
			all = append(all, check(r))
		}
	}
	return slices.DeleteFunc(all, func(n *node) bool { return n == nil })
}

// checks sees that what is written stays the member's own.
func (s *schema) checks(t *table, report reporter) {
	for _, p := range t.policies {
		if !p.Permissive || !p.forMembers {
			continue
		}
		if p.with == nil && p.is("w") && t.Updates {
			report("no_with_check", p.Name, "nothing says what a changed row may become", "alter policy "+p.Name+" on "+t.Name+" with check (…): the owner, and the circle that it is shared with")
			continue // what follows would say the same
		}
		for _, c := range []struct {
			code    string
			granted bool
		}{{"a", t.Inserts}, {"w", t.Updates}} {
			if p.is(c.code) && c.granted && !(p.with != nil && p.with.isTrue()) {
				s.check(t, p, t.writing(p, c.code), report)
			}
		}
	}
}

func (s *schema) check(t *table, p policy, conditions []*node, report reporter) {
	tied := func(holds func(*node) bool) bool {
		return slices.ContainsFunc(conditions, func(n *node) bool { return n.ties(holds) })
	}
	if len(t.owners) > 0 && s.given(t, t.owners) && !tied(func(n *node) bool { return t.owners[s.equals(n, s.me)] }) {
		report("owner_unchecked", p.Name, "the row's owner need not be the session's member", "add to WITH CHECK: "+t.one(t.owners)+" = (select auth.me())")
	}
	for _, c := range slices.Sorted(maps.Keys(t.circleCol)) {
		if t.columns[c].Given && !tied(func(n *node) bool { return n.isNull() == c || s.equals(n, s.circles) == c }) {
			name := t.columns[c].Name
			report("circle_unchecked", p.Name, "the row's circle need not be one of the member's", "add to WITH CHECK: ("+name+" is null or "+name+" = any ((select auth.my_circles())::uuid[]))")
		}
	}
	for _, k := range t.keys {
		if !s.asks(t, k, conditions) {
			report("foreign_key_tells", p.Name, "the foreign key "+k.Name+" tells which rows of "+k.To+" exist",
				"add to WITH CHECK: exists (select from "+k.To+" p where p.… = "+t.columns[k.Columns[0]].Name+"); bourn records guard --parent writes it")
		}
	}
}

// asks reports whether what is written is asked about a foreign key: its row must be visible, or it
// names the session's member or one of its circles. A key that no member gives needs none.
func (s *schema) asks(t *table, k foreignKey, conditions []*node) bool {
	for _, c := range k.Columns {
		if !t.columns[c].Given {
			continue
		}
		asked := slices.ContainsFunc(conditions, func(n *node) bool {
			return n.ties(func(n *node) bool {
				return n.isNull() == c || s.equals(n, s.me) == c || s.equals(n, s.circles) == c || n.label == sublink && n.readsColumn(c)
			})
		})
		if !asked {
			return false
		}
	}
	return true
}

// readsColumn reports whether a sublink reads a column of the table that the policy is of.
func (n *node) readsColumn(number int64) bool {
	found := false
	n.each(0, func(n *node, depth int) bool {
		found = found || n.label == column && n.number("varlevelsup") == int64(depth) && n.number("varattno") == number
		return !found
	})
	return found
}

func (s *schema) given(t *table, columns map[int64]bool) bool {
	for c := range columns {
		if t.columns[c].Given {
			return true
		}
	}
	return false
}

// one is a column's name out of several.
func (t *table) one(columns map[int64]bool) string {
	return t.columns[slices.Min(slices.Collect(maps.Keys(columns)))].Name
}

// indexes sees to what makes policies fast, and to what tells of hidden rows.
func (s *schema) indexes(t *table, report reporter) {
	if t.Selects && !t.Child {
		for _, columns := range []map[int64]bool{t.owners, t.circleCol} {
			for _, c := range slices.Sorted(maps.Keys(columns)) {
				if !slices.ContainsFunc(t.indexes, func(i index) bool { return len(i.Columns) > 0 && i.Columns[0] == c && i.Leaky == "" }) {
					report("no_index", t.columns[c].Name, "policies ask for it and no index begins with it", "create index on "+t.Name+" ("+t.columns[c].Name+")")
				}
			}
		}
	}
	for _, i := range t.indexes {
		switch {
		case i.Unique: // which is there for its constraint
			s.unscoped(t, i, report)
		case t.Selects:
			s.leakyIndex(t, i, report)
		}
	}
}

func (s *schema) leakyIndex(t *table, i index, report reporter) {
	const mend = "begin it with a column that the policies ask for, or with one of type uuid or timestamptz; drop it where no administrator needs it"
	switch {
	case len(i.Columns) == 0:
	case i.Leaky != "":
		report("leaky_index", i.Name, i.Leaky, mend)
	case i.Columns[0] == 0:
		tree, err := parseTree(i.Expressions)
		if err != nil || tree.has(func(n *node) bool {
			called := n.number("funcid") + n.number("opfuncid") // a node has one of them
			return called != 0 && !s.leakproof[called]
		}) {
			report("leaky_index", i.Name, "its expression is not leakproof", mend)
		}
	}
}

// unscoped finds a unique index by which a member learns of others' values: one with a column that
// members give, and none that keeps them apart.
func (s *schema) unscoped(t *table, i index, report reporter) {
	given := slices.Contains(i.Columns, 0) && (t.Inserts || t.Updates)
	for _, c := range i.Columns {
		col := t.columns[c]
		if t.owners[c] || t.circleCol[c] || col.RandomDefault {
			return
		}
		given = given || col.Given
	}
	if given {
		report("unique_unscoped", i.Name, "a value is unique among all members'", "put the owner's or the circle's column into it")
	}
}
