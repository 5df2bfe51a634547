package notify

import "bytes"

// join appends the cleaned absolute form of name to out, which must be empty. A relative
// name is taken from base, which is absolute.
func join(out, base, name []byte) []byte {
	if len(name) == 0 || name[0] != '/' {
		out = descend(out, base)
	}
	out = descend(out, name)
	if len(out) == 0 {
		out = append(out, '/')
	}
	return out
}

// descend appends the elements of name to the cleaned path out, of which "" is the root.
func descend(out, name []byte) []byte {
	for len(name) > 0 {
		element, rest := name, name[len(name):]
		if i := bytes.IndexByte(name, '/'); i >= 0 {
			element, rest = name[:i], name[i+1:]
		}
		switch {
		case len(element) == 0, len(element) == 1 && element[0] == '.':
		case len(element) == 2 && element[0] == '.' && element[1] == '.':
			out = out[:max(0, bytes.LastIndexByte(out, '/'))]
		default:
			out = append(append(out, '/'), element...)
		}
		name = rest
	}
	return out
}
