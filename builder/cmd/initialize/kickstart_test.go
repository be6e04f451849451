package initialize

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
)

func TestAKickstartFileBecomesAnAnswerFile(t *testing.T) {
	run := func(args ...string) (int, string, string) {
		cmd := Command()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		var out, errs bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&errs)
		cmd.SetArgs(args)
		code := exit.Run(context.Background(), cmd)
		return code, out.String(), errs.String()
	}
	to := filepath.Join(t.TempDir(), "a.yaml")
	const from = "../../kickstart/testdata/server.ks"
	code, out, errs := run(to, "--from-kickstart", from)
	require.Equal(t, exit.OK, code, errs)
	written, err := os.ReadFile(to)
	require.NoError(t, err)
	require.Contains(t, string(written), "# Translated from the kickstart file server.ks.\nnode: edge-01  # network --hostname, line 9\n")
	for _, want := range []string{
		string(written), "belongs into nodes/edge-01.yaml:\n\nnode: edge-01\ninterfaces:\n", "belongs into cluster.yaml:\n\nnetwork:\n",
		"has no meaning here, or not enough:\n\nline 2: text: ", "then: spore validate configs --answers " + to + "\n",
	} {
		require.Contains(t, out, want)
	}
	require.NotContains(t, out, "topsecret")

	code, _, errs = run(to, "--from-kickstart", from)
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "exists already and is not overwritten")
	code, _, errs = run(to+".2", "--from-kickstart", from, "--role", "x")
	require.Equal(t, exit.Misuse, code)
	require.Contains(t, errs, "run spore init twice")
	code, _, errs = run(to+".2", "--from-kickstart", "none.ks")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "read the kickstart file: open none.ks")
	require.NoFileExists(t, to+".2")
}
