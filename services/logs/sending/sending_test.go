package sending

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/logs"
)

func TestThePortIsThatOfTheRow(t *testing.T) {
	require.Equal(t, 19532, logs.SenderPort)
	require.Equal(t, "127.0.0.1:19532", Listen)
}

func TestParse(t *testing.T) {
	const store = `{"name":"a","address":"a:8643","serverName":"a"}`
	for text, want := range map[string]string{
		`{"stores":[` + store + `],"ca":"x","certificate":"y","key":"z"}`:               "",
		`{"stores":[` + store + `,` + store + `],"ca":"x","certificate":"y","key":"z"}`: "",
		``:                           "send.json is malformed",
		`{}`:                         "send.json has 0 stores; there are 1 to 2",
		`{"stores":[{},{},{}]}`:      "send.json has 3 stores",
		`{"stores":[{"name":"a"}]}`:  "a store without a name or an address",
		`{"stores":[` + store + `]}`: "does not say whom to trust, or who the node is",
	} {
		_, err := Parse([]byte(text))
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
