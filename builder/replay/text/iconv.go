package text

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/text/getopt"
)

// maxConverted bounds what iconv reads, in bytes.
const maxConverted = 16 << 20

// iconv is iconv(1) for what every character set writes in the same way: ASCII, and UTF-8 as itself. Of other text it
// says that it cannot convert it, as it does where a set lacks a character.
func iconv(_ context.Context, c *command.Call) (int, error) {
	options, operands, err := getopt.Parse(c, getopt.Spec{Short: "f:t:cs", Long: map[string]rune{"from-code": 'f', "to-code": 't', "silent": 's'}})
	if err != nil {
		return 0, err
	}
	if len(operands) > 0 {
		return c.Unknown(operands[0])
	}
	set := map[rune]string{}
	for _, o := range options {
		name, _, _ := strings.Cut(strings.ToUpper(o.Value), "//")
		set[o.Letter] = strings.ReplaceAll(name, "-", "")
	}
	data, err := io.ReadAll(io.LimitReader(c.Stdin, maxConverted+1))
	if err != nil {
		return 0, err
	}
	if len(data) > maxConverted {
		return 0, fmt.Errorf("iconv: over %d bytes: %w", maxConverted, files.ErrBound)
	}
	same := set['f'] == "UTF8" && set['t'] == "UTF8" && utf8.Valid(data)
	for i, b := range data {
		if b >= utf8.RuneSelf && !same {
			return c.Fail(1, "cannot convert input at position %d", i)
		}
	}
	_, err = c.Stdout.Write(data)
	return 0, err
}
