package profile

import "go.yaml.in/yaml/v3"

// runAs decodes the name or uid of a user. Whether there is one the host says.
func (d *decoder) runAs(where string, n *yaml.Node) {
	const what = "the name of a user, or a uid"
	if n.Kind == yaml.ScalarNode && n.Tag == "!!int" && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		if n.Value == "0" {
			d.fail(n, "%s cannot be root; leave the key out for that", where)
			return
		}
		if _, ok := d.number(n, where, what, n.Value, 1<<32-2); ok {
			d.p.RunAs = n.Value
		}
		return
	}
	text, ok := d.line(n, where, what)
	switch {
	case !ok:
	case text == "":
		d.fail(n, "%s is empty; leave the key out", where)
	case text == "root":
		d.fail(n, "%s cannot be root; leave the key out for that", where)
	default:
		d.p.RunAs = text
	}
}
