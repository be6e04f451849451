//go:build e2e

package shipped

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/oci"
	"spore/test/kubecluster"
	"spore/test/program"
	"spore/test/rehearse"
)

const (
	// sourceTree is the project, seen from here.
	sourceTree = "../.."
	// helloImage is the image of test/hello.
	helloImage = "spore.local/hello:1"
)

// site is a folder as a user has one: the configuration, the program in bin, and what commands make.
type site struct {
	// t is the test or the step that runs, outer the whole test, which the machines belong to.
	t, outer *testing.T
	dir      string
	// path has kubectl before what the host has.
	path string
	// running are the commands that run machines.
	running []*rehearse.Command
}

// newSite copies a configuration of the project into a folder of that name, and adds to it what runs in pods, as
// docs/kubernetes.md says. It is in the source tree, from which images are built, and stays there to be looked at.
// Tests that run side by side name different folders, with short names: sockets are in them.
func newSite(t *testing.T, name, configs string) *site {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(sourceTree, "out", "shipped", name))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	s := &site{t: t, outer: t, dir: dir}
	spore, err := program.Spore(sourceTree)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(s.dir, "bin"), 0o755))
	require.NoError(t, os.Link(spore, filepath.Join(s.dir, "bin", "spore")))
	require.NoError(t, os.CopyFS(filepath.Join(s.dir, "configs"), os.DirFS(filepath.Join(sourceTree, configs))))
	s.addHello()
	programs := filepath.Join(s.dir, "programs")
	require.NoError(t, kubecluster.Programs(context.Background(), sourceTree, programs, "kubernetes"))
	s.path = filepath.Join(programs, "usr", "bin") + ":" + os.Getenv("PATH")
	return s
}

// addHello has the nodes bring the image of test/hello.
func (s *site) addHello() {
	s.t.Helper()
	hello := filepath.Join(s.dir, "hello")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", hello, "../hello")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(s.t, err, string(out))
	program, err := os.ReadFile(hello)
	require.NoError(s.t, err)
	var archive bytes.Buffer
	_, err = oci.Program(&archive, program, oci.ProgramOptions{Image: helloImage, Name: "hello"})
	require.NoError(s.t, err)
	require.NoError(s.t, os.Mkdir(filepath.Join(s.dir, "configs", "images"), 0o755))
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, "configs", "images", "hello.tar"), archive.Bytes(), 0o644))
	settings := filepath.Join(s.dir, "configs", "services", "kubernetes.yaml")
	data, err := os.ReadFile(settings)
	require.NoError(s.t, err)
	require.Equal(s.t, 1, strings.Count(string(data), "images: []"))
	edited := strings.Replace(string(data), "images: []", "images: [images/hello.tar]", 1)
	require.NoError(s.t, os.WriteFile(settings, []byte(edited), 0o644))
}

// documented returns a command that stands in a document of the project, with replacements made, in pairs. It fails
// where the document says something else: what is tested is what is written there.
func (s *site) documented(document, command string, replacements ...string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(sourceTree, document))
	require.NoError(s.t, err)
	found := false
	code := false
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		line, _, _ = strings.Cut(line, "  #")
		found = found || code && strings.TrimSpace(line) == command
	}
	require.True(s.t, found, "no block of code in %s has the line %q", document, command)
	return strings.NewReplacer(replacements...).Replace(command)
}

// command is a command of the shell in the site's folder.
func (s *site) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", "exec "+line)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "PATH="+s.path)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs a command to its end and returns its output.
func (s *site) run(line string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), step)
	defer cancel()
	var out, bad bytes.Buffer
	cmd := s.command(ctx, line)
	cmd.Stdout, cmd.Stderr = &out, &bad
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(bad.String()))
	}
	return out.String(), nil
}

// must is a command that has to work.
func (s *site) must(line string) string {
	s.t.Helper()
	out, err := s.run(line)
	require.NoError(s.t, err)
	return strings.TrimSpace(out)
}

// within tries until there is no error any more.
func (s *site) within(limit time.Duration, what string, try func() error) {
	s.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(2 * time.Second) {
		err := try()
		if err == nil {
			return
		}
		require.True(s.t, time.Now().Before(end), "%s, after %s: %v", what, limit, err)
	}
}

// boot starts machines by a command; they end with the whole test at the latest.
func (s *site) boot(line string) *rehearse.Command {
	s.t.Helper()
	c := rehearse.Start(s.outer, s.command(context.Background(), line), ready)
	s.running = append(s.running, c)
	return c
}

// end cuts the power of all machines, as Ctrl-C does.
func (s *site) end() {
	s.t.Helper()
	for _, c := range s.running {
		c.Interrupt()
	}
	for _, c := range s.running {
		require.NoError(s.t, c.Wait())
	}
	s.running = nil
}

// shell is the root shell on the console of a node.
func (s *site) shell(node string) *rehearse.Shell {
	s.t.Helper()
	return rehearse.Attach(s.t, filepath.Join(s.dir, "out"), node, step)
}
