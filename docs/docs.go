// Package docs holds the pages that the program itself prints in another form. The pages
// are the source: nothing here says twice what they say.
package docs

import _ "embed"

// Profile is the page about profiles, in Markdown. bourn man makes bourn-profile(5) of it.
//
//go:embed profile.md
var Profile string
