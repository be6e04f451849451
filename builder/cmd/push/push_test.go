package push

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/exit"
	"spore/builder/push"
	"spore/cluster"
	"spore/pki"
)

const example = "../../../examples/edge"

func spore(args ...string) (code int, out, errs string) {
	root := &cobra.Command{Use: "spore", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Command())
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append([]string{"push"}, args...))
	code = exit.Run(context.Background(), root)
	return code, stdout.String(), stderr.String()
}

func TestWhatIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"two folders":               {[]string{"a", "b"}, exit.Misuse, "accepts at most 1 arg(s)"},
		"a file and a restart":      {[]string{example, "-o", "x", "--reboot"}, exit.Misuse, "--output sends nothing"},
		"a dry run of a file":       {[]string{example, "-o", "x", "--dry-run"}, exit.Misuse, "--output sends nothing"},
		"a file of the way back":    {[]string{example, "-o", "x", "--back"}, exit.Misuse, "--output sends nothing"},
		"a file of a file":          {[]string{example, "--from", "x", "-o", "y"}, exit.Misuse, "--from sends what is signed already"},
		"a way back from a file":    {[]string{example, "--from", "x", "--back"}, exit.Misuse, "--from sends what is signed already"},
		"a file without keys":       {[]string{example, "--from", "x"}, exit.Failed, "nobody can say whether x is the cluster's"},
		"a root without a file":     {[]string{example, "--root"}, exit.Misuse, "--root is about files"},
		"an image of nothing":       {[]string{example, "--was", "out.last"}, exit.Misuse, "--was is for a list of differences"},
		"a way back by force":       {[]string{example, "--back", "--force"}, exit.Misuse, "--back sends nothing"},
		"spared without a restart":  {[]string{example, "--without", "edge-01"}, exit.Misuse, "--without is about restarts"},
		"for no time":               {[]string{example, "--valid", "0d"}, exit.Misuse, "--valid: \"0d\" is not a time; write for instance 30d or 12h"},
		"a way back without keys":   {[]string{example, "--back"}, exit.Failed, "find a certificate to ask the nodes with"},
		"a folder without files":    {[]string{t.TempDir()}, exit.Failed, "the configuration has errors"},
		"no keys":                   {[]string{example}, exit.Failed, "open the cluster's keys, which sign updates"},
		"a folder of other keys":    {[]string{example, "--pki", t.TempDir()}, exit.Failed, "read the cluster's keys"},
		"a key without certificate": {[]string{example, "--secure-boot-key", "x"}, exit.Misuse, "--secure-boot-key and --secure-boot-cert go together"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := spore(tc.args...)
			require.Equal(t, tc.code, code, errs)
			require.Contains(t, errs, tc.want)
			require.Empty(t, out)
		})
	}
}

func TestWhatCannotBeMade(t *testing.T) {
	config, report := cluster.LoadDir(example)
	require.NoError(t, report.Err())
	empty := t.TempDir()
	text := filepath.Join(empty, "text")
	require.NoError(t, os.WriteFile(text, bytes.Repeat([]byte("text"), 9999), 0o644))
	keys := cluster.Public{SigningKeys: []string{"k"}}
	for name, tc := range map[string]struct {
		image, cluster string
		public         cluster.Public
		want           string
	}{
		"the keys of another cluster": {text, "other", keys, "the keys are of the cluster with the id other"},
		"without keys":                {text, config.Cluster.ID, cluster.Public{}, "name their folder with --pki"},
		"no image":                    {filepath.Join(empty, "nothing"), config.Cluster.ID, keys, "name the image that the nodes are to run with --image"},
		"a folder without image":      {empty, config.Cluster.ID, keys, "has no image; with --image name the image"},
		"a text":                      {text, config.Cluster.ID, keys, "it has no partition table"},
	} {
		t.Run(name, func(t *testing.T) {
			config.Public = tc.public
			_, err := push.Make(push.Options{Image: tc.image, Config: config, Folder: os.DirFS(example), Tree: &pki.Tree{Cluster: tc.cluster}})
			require.ErrorContains(t, err, tc.want)
		})
	}
}
