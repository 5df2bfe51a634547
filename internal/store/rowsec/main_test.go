package rowsec_test

import (
	"testing"

	"bourn/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }
