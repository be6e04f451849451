package initialize

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const source = "../../.."

// byDefault are files with keys that commands write where nobody says otherwise, beside a folder configs.
var byDefault = []string{
	"configs.pki/ca.yaml",    // spore pki init
	"configs.access",         // spore access
	"kubeconfig",             // spore kubeconfig
	"edge-01.bundle",         // spore pki bundle
	"edge-01.bundle.age",     // the same with --encrypt
	"bundles/edge-01.bundle", // the same with --all
	"export/node-admin.key",  // spore pki export
	"secureboot/db.key.age",  // spore keys init
	"secureboot/pcr.key",
}

// documented are the names that documentation gives to what such commands write, which is a file or a folder.
func documented(t *testing.T) []string {
	pages, err := filepath.Glob(filepath.Join(source, "docs", "*.md"))
	require.NoError(t, err)
	code, err := filepath.Glob(filepath.Join(source, "builder", "cmd", "*", "*.go"))
	require.NoError(t, err)
	writes := []*regexp.Regexp{
		regexp.MustCompile("spore (?:access|kubeconfig|pki bundle|pki export [^`|;&#\\\\\n]*--name)[^`|;&#\\\\\n]* -o ([A-Za-z0-9][A-Za-z0-9._-]*)"),
		regexp.MustCompile(`(?m)spore keys init ([a-z][A-Za-z0-9._-]*)(?:$|  | --)`),
		regexp.MustCompile(`> (etcd\.db)`),
	}
	var out []string
	for _, page := range append(append(pages, code...), filepath.Join(source, "README.md")) {
		data, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, w := range writes {
			for _, m := range w.FindAllStringSubmatch(string(data), -1) {
				out = append(out, m[1])
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ignored tells whether git ignores a path of a new repository with the given .gitignore, as a file and as a folder.
func ignored(t *testing.T, ignore string) func(name string) bool {
	t.Helper()
	repo := t.TempDir()
	git := func(args ...string) error {
		cmd := exec.Command("git", append([]string{"-C", repo}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		return cmd.Run()
	}
	require.NoError(t, git("init", "-q"), "git is there; run make deps")
	data, err := os.ReadFile(ignore)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(repo, ".gitignore"), data, 0o644))
	return func(name string) bool { return git("check-ignore", "-q", name) == nil }
}

func TestGitIgnoresWhatCommandsWriteWithKeysInIt(t *testing.T) {
	names := documented(t)
	for _, known := range []string{"client", "private", "bundles", "admin.kubeconfig", "anna.access", "edge-01.bundle.age", "secureboot", "etcd.db"} {
		require.Contains(t, names, known, "the documentation is read")
	}
	made := filepath.Join(t.TempDir(), "plant")
	_, err := Write(made, "edge", rand.Reader)
	require.NoError(t, err)
	for what, file := range map[string]string{"this repository": filepath.Join(source, ".gitignore"), "a folder of spore init": filepath.Join(made, ".gitignore")} {
		t.Run(what, func(t *testing.T) {
			ignores := ignored(t, file)
			for _, name := range byDefault {
				require.True(t, ignores(name), name)
			}
			for _, name := range names {
				require.True(t, ignores(name) || ignores(name+"/x"), name)
			}
			for _, name := range []string{"cluster.yaml", "services/mqtt.yaml", "nodes/edge-01.yaml", "image.yaml", "image.lock",
				"accounts.yaml", "images/app.tar", "mqtt.crt", ".schema/mqtt.json"} {
				require.False(t, ignores(name), name)
			}
		})
	}
}

// What is ignored is never part of this repository.
func TestGitIgnoresNothingThatIsKept(t *testing.T) {
	out, err := exec.Command("git", "-C", source, "ls-files", "-ci", "--exclude-standard").Output()
	if err != nil { // not a checkout: an archive of the source
		require.NoDirExists(t, filepath.Join(source, ".git"))
		return
	}
	require.Empty(t, strings.TrimSpace(string(out)))
}
