package cli_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// atOnce is how many of the tests that mostly wait run at once.
const atOnce = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
