package run

import (
	"fmt"

	"bourn"
	"bourn/internal/profile"
)

// addDeny adds an entry to what is denied.
func (e *editing) addDeny(entry denial) error {
	if !entry.placeholder {
		return e.add(profile.DenyList, entry.text)
	}
	if entry.glob {
		return bourn.WithHint(fmt.Errorf("%w: a placeholder takes a path, and %s is a pattern", bourn.ErrInvalid, bourn.Printable(entry.text)),
			"name the paths one by one, or leave out --placeholder")
	}
	out, changed, err := profile.AddPlaceholder(e.home.ProfilePath(e.name), e.src, entry.text)
	if err != nil {
		return err
	}
	e.src = out
	if changed {
		e.change.Added = append(e.change.Added, Entry{List: profile.DenyList, Path: entry.text})
	}
	return nil
}

// placeholder gives an entry that the profile has a placeholder, if that is asked for: it is
// written anew, at the end of the list.
func (e *editing) placeholder(has profile.Deny, entry denial) error {
	if !entry.placeholder || has.Placeholder {
		return nil
	}
	if !entry.glob {
		if has.Empty {
			return bourn.WithHint(fmt.Errorf("%w: %s is denied with a style, which would be lost", bourn.ErrConflict, bourn.Printable(has.Text)),
				"add placeholder: true to that entry of "+e.home.ProfilePath(e.name)+" by hand")
		}
		if err := e.remove(profile.DenyList, has.Text); err != nil {
			return err
		}
	}
	return e.addDeny(entry)
}
