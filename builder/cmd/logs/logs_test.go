package logs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhichNodesAndUnitsAreMeant(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		err  string
	}{
		"nothing":             {nil, "choose nodes with --all"},
		"a node alone":        {[]string{"edge-01"}, "choose nodes with --all"},
		"all, and a unit":     {[]string{"--all", "configs", "mosquitto"}, `"mosquitto" is too much`},
		"all, and some":       {[]string{"--all", "--node", "edge-01"}, "give it without --node and --role"},
		"a unit twice":        {[]string{"edge-01", "mosquitto", "--unit", "coredns"}, "name the unit behind the node"},
		"a bad time":          {[]string{"--all", "--since", "yesterday"}, "--since: "},
		"an end that follows": {[]string{"--all", "--until", "1h", "--follow"}, "give one of them"},
		"a bad expression":    {[]string{"--all", "--grep", "("}, "is not one of RE2"},
		"a bad priority":      {[]string{"--all", "--priority", "9"}, "the priority is"},
		"a bad start":         {[]string{"--all", "--boot", "1"}, "the start is"},
		"an end before":       {[]string{"--all", "--since", "1h", "--until", "2h"}, "--until 2h is not behind --since 1h"},
		"too many lines":      {[]string{"--all", "--lines", "100001"}, "choose 0 to 100000"},
		"too many of a node":  {[]string{"--all", "--direct", "--lines", "10001"}, "choose 0 to 10000"},
		"too many to follow":  {[]string{"--all", "--follow", "--lines", "10001"}, "choose 0 to 10000"},
		"a pod that is none":  {[]string{"--pod", "press-0"}, "write it as NAMESPACE/POD"},
		"a pod and a unit":    {[]string{"--pod", "a/b", "--unit", "kafka"}, "give --pod without --unit"},
		"a pod, and a node":   {[]string{"configs", "edge-01", "--pod", "a/b"}, `"edge-01" is too much; name nodes with --node`},
		"a source of one":     {[]string{"edge-01", "kafka", "--source", "audit"}, "--source is of several nodes"},
		"a source of nobody":  {[]string{"--all", "--source", "kernel"}, "choose from journal, pod, audit"},
		"around nothing":      {[]string{"--around", "a\x1b"}, "is not the name of an alert"},
		"around, and a time":  {[]string{"--around", "A", "--since", "1h"}, "--around has its nodes and its time from the alert"},
		"around for ever":     {[]string{"--around", "A", "--for", "48h"}, "give up to 24h"},
		"around, and a unit":  {[]string{"configs", "kafka", "--around", "A"}, `"kafka" is too much`},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := Command()
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			cmd.SilenceUsage = true
			pki := t.TempDir()
			cmd.SetArgs(append(tc.args, "--pki", pki))
			err := cmd.Execute()
			require.ErrorContains(t, err, tc.err)
		})
	}
}

func TestAFileThatIsThereIsNotWrittenOver(t *testing.T) {
	o := options{output: filepath.Join(t.TempDir(), "a.log.zst")}
	require.NoError(t, os.WriteFile(o.output, []byte("mine"), 0o600))
	_, _, err := o.writer(nil)
	require.ErrorContains(t, err, "is there already")
	data, err := os.ReadFile(o.output)
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
}

func TestACommandThatFailsLeavesNoEmptyFile(t *testing.T) {
	for _, name := range []string{"a.log", "a.log.zst"} {
		o := options{output: filepath.Join(t.TempDir(), name)}
		_, done, err := o.writer(nil)
		require.NoError(t, err)
		broken := errors.New("interrupted")
		require.ErrorIs(t, done(broken), broken)
		require.NoFileExists(t, o.output, "it can be called again")

		w, done, err := o.writer(nil)
		require.NoError(t, err)
		_, err = w.WriteString("a line\n")
		require.NoError(t, err)
		require.ErrorIs(t, done(broken), broken)
		require.FileExists(t, o.output, "some nodes have answered")

		o.output += ".zst"
		_, done, err = o.writer(nil)
		require.NoError(t, err)
		require.NoError(t, done(nil))
		require.FileExists(t, o.output, "there is nothing, and that is an answer")
	}
}
