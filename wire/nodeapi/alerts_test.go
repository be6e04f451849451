package nodeapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLabelsOfASilenceAreFewAndShort(t *testing.T) {
	text, err := Labels(map[string]string{"job": "press", "line": `a="b", <c>`})
	require.NoError(t, err)
	got, err := ParseLabels(text)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"job": "press", "line": `a="b", <c>`}, got)

	var many []string
	for i := range maxSilenceLabels + 1 {
		many = append(many, fmt.Sprintf(`"l%d":"x"`, i))
	}
	for text, want := range map[string]string{
		``: "the labels are malformed", `["job"]`: "the labels are malformed", `{"job":1}`: "the labels are malformed",
		`{"job":"x"}{}`: "something follows them", `{}`: "there are 0 labels; write 1 to 10", `null`: "there are 0 labels; write 1 to 10",
		`{` + strings.Join(many, ",") + `}`: "there are 11 labels; write 1 to 10",
		`{"":"x"}`:                          `"" is not the name of a label`,
		`{"a-b":"x"}`:                       `"a-b" is not the name of a label`,
		`{"` + strings.Repeat("a", 129) + `":"x"}`:   "is not the name of a label",
		`{"job":"a\u001b[2J"}`:                       "job: a label's value is text without control characters",
		`{"job":"` + strings.Repeat("a", 513) + `"}`: "job: a label's value is text of 1 to 512 bytes",
		`{"job":" "}`: "job: a label's value is text of 1 to 512 bytes",
		`{"job":"` + strings.Repeat("\\u0009", 3) + `x" }`: "job: a label's value is text without control characters",
	} {
		_, err := ParseLabels(text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParseLabels(f *testing.F) {
	f.Add(`{"job":"press"}`)
	f.Add(`{"job":"\ud800","a":"\u0000"}`)
	f.Fuzz(func(t *testing.T, text string) {
		values, err := ParseLabels(text)
		if err != nil {
			return
		}
		require.NotEmpty(t, values)
		for name, value := range values {
			require.True(t, plain(name) && plain(value))
		}
		again, err := Labels(values)
		require.NoError(t, err)
		same, err := ParseLabels(again)
		require.NoError(t, err)
		require.Equal(t, values, same)
	})
}
