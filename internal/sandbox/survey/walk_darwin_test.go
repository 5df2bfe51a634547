package survey

var modes = []struct {
	name       string
	set, unset func()
}{{"plain", func() {}, func() {}}}
