package inspect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/privileged"
)

func TestProgramsThatGiveRightsArePrinted(t *testing.T) {
	for name, tc := range map[string]struct {
		files []privileged.File
		want  string
	}{
		"some": {
			[]privileged.File{
				{Path: "/usr/bin/ping", Owner: "root", Group: "root", Mode: "0755", Capabilities: "cap_net_raw=ep", Package: "iputils-ping"},
				{Path: "/usr/bin/su", Owner: "root", Group: "root", Mode: "4755"},
			},
			"/usr/bin/ping cap_net_raw=ep\t0755\troot:root\tiputils-ping\n/usr/bin/su\t4755\troot:root\t-\n",
		},
		"none": {nil, "none\t\t\t\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			printPrivileged(&out, tc.files)
			require.Equal(t, "\nSET-USER-ID, SET-GROUP-ID, CAPABILITIES\tMODE\tOWNER\tPACKAGE\n"+tc.want, out.String())
		})
	}
}
