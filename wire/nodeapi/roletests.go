package nodeapi

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// RoleTestsPath is before the name of a role of the configuration's own whose tests are run.
const RoleTestsPath = "/v1/role-tests/"

// RoleTest is what came of one test of a role. The node answers with a line of JSON for each, as they end.
type RoleTest struct {
	// Command is what was run, as the node says; who shows it takes the role's own.
	Command []string `json:"command"`
	// Problem says why the test failed, in one line; empty when it passed.
	Problem string `json:"problem,omitempty"`
	// Output is the end, at most 4 KiB, of the first 64 KiB that the command printed, where the test failed.
	Output string `json:"output,omitempty"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
}

// maxRoleTest bounds the line of one test, in bytes: a command, a problem and an output of some 4 KiB each, of which
// JSON writes each byte in at most six.
const maxRoleTest = 128 << 10

// ReadRoleTests reads the answer of a node, and hands each test on as it comes. It returns how many there were; more
// than most are an error.
func ReadRoleTests(r io.Reader, most int, each func(RoleTest)) (int, error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxRoleTest)
	n := 0
	for in.Scan() {
		var t RoleTest
		if err := json.Unmarshal(in.Bytes(), &t); err != nil {
			return n, fmt.Errorf("its answer is malformed: %w", err)
		}
		switch {
		case n >= most:
			return n, fmt.Errorf("its answer has more than %d tests", most)
		case len(t.Command) == 0:
			return n, errors.New("its answer has a test without a command")
		}
		t.Problem, t.Output = strings.ReplaceAll(printable(t.Problem), "\n", " "), printable(t.Output)
		each(t)
		n++
	}
	if err := in.Err(); err != nil {
		return n, fmt.Errorf("read its answer: %w", err)
	}
	return n, nil
}

// printable is a text of others in lines of letters that a terminal shows as they are.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}
