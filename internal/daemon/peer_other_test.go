//go:build !linux

package daemon

// asFiltered is a peer under a filter that only Linux has.
func asFiltered() int { return 2 }

// asFilteredUser is the same of another user.
func asFilteredUser() int { return 2 }

// asJudge judges by what only Linux tells.
func asJudge() int { return 2 }
