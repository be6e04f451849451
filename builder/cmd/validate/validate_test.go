package validate

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
)

func spore(args ...string) (code int, out, errs string) {
	cmd := Command()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var o, e bytes.Buffer
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	cmd.SetArgs(args)
	code = exit.Run(context.Background(), cmd)
	return code, o.String(), e.String()
}

const oneNode = `name: x
id: 6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d12
domain: x.example
network:
  nodeSubnets: [10.0.0.0/24]
services: [dns]
nodes:
  - {name: a, macs: ["52:54:00:00:00:01"], ips: [10.0.0.5], roles: [dns-server]}
`

// write makes a configuration folder.
func write(t *testing.T, cluster string) string {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "services"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte(cluster), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "services", "dns.yaml"), []byte("# the defaults\n"), 0o644))
	return dir
}

func TestTheExampleIsValid(t *testing.T) {
	code, out, errs := spore("../../../examples/edge", "--strict")
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, "../../../examples/edge is valid: 3 nodes, 0 warnings\n")
}

func TestIDsOfAccountsAreChecked(t *testing.T) {
	dir := write(t, oneNode)
	name := filepath.Join(dir, "accounts.yaml")
	require.NoError(t, os.WriteFile(name, []byte("users: {a: 512}\ngroups: {}\n"), 0o644))
	code, _, errs := spore(dir)
	require.Equal(t, exit.OK, code, errs)
	require.NoError(t, os.WriteFile(name, []byte("users:\n  a: 5120\n"), 0o644))
	code, out, errs := spore(dir)
	require.Equal(t, exit.Failed, code)
	require.Contains(t, out, name+":2:6: error: the id 5120 of user a is not one that a build gives")
	require.Contains(t, errs, "has 1 error")
}

func TestAWarningFailsOnlyWhenStrict(t *testing.T) {
	dir := write(t, oneNode)
	code, out, _ := spore(dir)
	require.Equal(t, exit.OK, code)
	require.Contains(t, out, dir+"/services/dns.yaml:1:1: warning: there are neither forwarders here")
	require.Contains(t, out, "is valid: 1 node, 1 warning\n")

	code, out, errs := spore(dir, "--strict")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, out, dir+"/services/dns.yaml:1:1: error: there are neither forwarders here")
	require.Contains(t, errs, dir+" has 1 error and 0 warnings")
}

func TestJSONHasEveryProblem(t *testing.T) {
	dir := write(t, oneNode+"nods: []\n")
	code, out, _ := spore(dir, "--json")
	require.Equal(t, exit.Failed, code)
	var r struct {
		OK       bool
		Nodes    int
		Errors   int
		Problems []struct {
			Severity, File, Message string
			Line, Column            int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.False(t, r.OK)
	require.Equal(t, 1, r.Errors)
	require.Equal(t, "error", r.Problems[0].Severity)
	require.Equal(t, filepath.Join(dir, "cluster.yaml"), r.Problems[0].File)
	require.Equal(t, 9, r.Problems[0].Line)
	require.Equal(t, `unknown key "nods"; did you mean "nodes"?`, r.Problems[0].Message)
}

func TestAFolderThatIsNotThere(t *testing.T) {
	code, out, _ := spore(filepath.Join(t.TempDir(), "none"))
	require.Equal(t, exit.Failed, code)
	require.Contains(t, out, "cluster.yaml:1:1: error: cannot be read: no such file or directory; name the folder that holds it, or make one with `spore init`")
}

func TestTwoFoldersAreWrongUsage(t *testing.T) {
	code, _, _ := spore("a", "b")
	require.Equal(t, exit.Misuse, code)
}

func TestAnAnswerFileIsCheckedWithTheConfiguration(t *testing.T) {
	dir := write(t, oneNode)
	name := filepath.Join(t.TempDir(), "a.yaml")
	put := func(text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o644)) }
	put("node: a\ndisk: {serial: S5H9NX0R}\nencrypt: none\n")
	code, out, errs := spore(dir, "--answers", name)
	require.Equal(t, exit.OK, code, errs)
	require.Contains(t, out, dir+" with "+name+" is valid: 1 node, 1 warning\n")

	put("node: b\ndisk: {serial: S5H9NX0R}\nencrypt: tpm2\nthen: halt\n")
	code, out, errs = spore(dir, "--answers", name)
	require.Equal(t, exit.Failed, code)
	require.Contains(t, out, name+`:1:7: error: cluster.yaml has no node "b"; its nodes are a`+"\n")
	require.Contains(t, out, name+`:4:7: error: what the machine does then "halt" is unknown; write restart, power-off or stay`+"\n")
	require.Contains(t, errs, "has 2 errors and 1 warning")
	code, out, _ = spore(dir, "--answers", name, "--json")
	require.Equal(t, exit.Failed, code)
	var r struct {
		OK       bool
		Problems []struct{ File string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.False(t, r.OK)
	require.Len(t, r.Problems, 3)
	require.Equal(t, name, r.Problems[2].File)

	// Against a configuration with errors, only the form is judged.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte("nodes: 5\n"), 0o644))
	put("node: b\nwhere: here\n")
	code, out, _ = spore(dir, "--answers", name)
	require.Equal(t, exit.Failed, code)
	require.Contains(t, out, name+`:2:1: error: unknown key "where"`)
	require.NotContains(t, out, "has no node")

	code, _, errs = spore(dir, "--answers", name+".none")
	require.Equal(t, exit.Failed, code)
	require.Contains(t, errs, "read the answer file: open "+name+".none: no such file")
}
