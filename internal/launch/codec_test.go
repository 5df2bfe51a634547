package launch

import (
	"net/netip"
	"reflect"
	"testing"

	"bourn/internal/policy"

	"github.com/google/go-cmp/cmp"
)

// fill gives every field below v a value of its own that is not zero.
func fill(v reflect.Value, n *int) {
	*n++
	switch at := v.Addr().Interface().(type) {
	case *policy.Network: // its rules are the parent's
		at.Mode = policy.NetworkMode("m" + string(rune('a'+*n%26)))
		return
	case *netip.Addr:
		*at = netip.AddrFrom4([4]byte{192, 0, 2, byte(*n)})
		return
	case *netip.AddrPort:
		*at = netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 1, 15: byte(*n)}), uint16(*n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("s\xff" + string(rune('a'+*n%26)))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n) - 3) // negative ones too
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	default:
		panic("a kind that the codec does not know: " + v.Kind().String())
	}
}

// Every field arrives but the plan's items, late places, placeholders and rules of the
// network, which are the parent's: a
// field that is added and forgotten in the codec fails here.
func TestCodecCarriesEverything(t *testing.T) {
	var m message
	n := 0
	fill(reflect.ValueOf(&m).Elem(), &n)
	m.Order.Plan.Items, m.Order.Plan.Late, m.Order.Plan.Placeholders = nil, nil, nil
	got, err := decode(encode(&m)[4:])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got, addresses); diff != "" {
		t.Error(diff)
	}
}

// addresses are compared as values.
var addresses = cmp.Options{cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })}

// FuzzDecode: whatever comes, decoding neither panics nor takes more memory than came.
func FuzzDecode(f *testing.F) {
	f.Add(encode(&message{Kind: kindGo})[4:])
	f.Add(encode(&message{Kind: kindOrder, Order: &order{Plan: &policy.Plan{Command: []string{"true"}}}})[4:])
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := decode(body)
		if err != nil {
			return
		}
		again, err := decode(encode(&m)[4:])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, again, addresses); diff != "" {
			t.Error(diff)
		}
	})
}
