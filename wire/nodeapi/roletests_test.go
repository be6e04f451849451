package nodeapi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTestsOfARoleAreReadAsTheyCome(t *testing.T) {
	var got []RoleTest
	n, err := ReadRoleTests(strings.NewReader(`{"command":["valkey-cli","ping"],"seconds":0.1}
{"command":["false"],"problem":"exit\nstatus 1","output":"a\nb\u001b[31m","seconds":0}
`), 2, func(t RoleTest) { got = append(got, t) })
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, []RoleTest{
		{Command: []string{"valkey-cli", "ping"}, Seconds: 0.1},
		{Command: []string{"false"}, Problem: "exit status 1", Output: "a\nb [31m"},
	}, got)
	n, err = ReadRoleTests(strings.NewReader(""), 2, nil)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestAnAnswerOfTestsThatIsNone(t *testing.T) {
	for text, want := range map[string]string{
		"x\n":  "its answer is malformed: ",
		"{}\n": "its answer has a test without a command",
		strings.Repeat("{\"command\":[\"a\"]}\n", 3): "its answer has more than 2 tests",
		strings.Repeat(" ", maxRoleTest+1):           "read its answer: ",
	} {
		_, err := ReadRoleTests(strings.NewReader(text), 2, func(RoleTest) {})
		require.ErrorContains(t, err, want)
	}
}

func FuzzReadRoleTests(f *testing.F) {
	f.Add(`{"command":["a"],"problem":"x","output":"y","seconds":1}`)
	f.Add("{}\n\n[]")
	f.Fuzz(func(t *testing.T, text string) {
		seen := 0
		n, _ := ReadRoleTests(strings.NewReader(text), 3, func(r RoleTest) {
			seen++
			require.NotEmpty(t, r.Command)
			require.NotRegexp(t, "[\\x00-\\x09\\x0b-\\x1f\\x7f]", r.Problem+r.Output)
		})
		require.Equal(t, seen, n)
		require.LessOrEqual(t, n, 3)
	})
}
