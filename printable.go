package bourn

import "unicode/utf8"

func decodeRune(s string) (rune, int) { return utf8.DecodeRuneInString(s) }

// hidden reports whether r is a C1 control or a format character that changes how
// the text around it is shown (bidirectional overrides, zero-width characters, BOM,
// line and paragraph separators), as in CVE-2021-42574.
func hidden(r rune) bool {
	switch {
	case 0x80 <= r && r <= 0x9f, 0x200b <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e,
		0x2060 <= r && r <= 0x2069, r == 0xfeff, r == 0x00ad, r == 0x061c, 0xe0000 <= r && r <= 0xe007f:
		return true
	}
	return false
}
