//go:build integration

package image

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/cmd/inspect"
	"spore/builder/manifest"
	"spore/builder/pipeline"
	"spore/services"
	"spore/test/program"
)

// buildSpore compiles the program under test.
func buildSpore(t *testing.T) (repo, spore string) {
	t.Helper()
	repo, err := filepath.Abs("../..")
	require.NoError(t, err)
	spore, err = program.Spore(repo)
	require.NoError(t, err)
	return repo, spore
}

func build(t *testing.T, spore, repo, config, out string) pipeline.Result {
	t.Helper()
	r, _ := measuredBuild(t, spore, repo, config, out)
	return r
}

// measuredBuild is build, and the processor's time that it took.
func measuredBuild(t *testing.T, spore, repo, config, out string) (r pipeline.Result, cpu time.Duration) {
	t.Helper()
	cmd := exec.Command(spore, "build", config, "-o", out, "--source", repo, "--json")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	return r, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// TestAnEditOfTheConfigurationCostsACopy holds the second build after an edit of cluster.yaml to a second of a
// processor and what the same machine takes to copy a file of that size, and makes sure that only what depends on the
// edit has changed. The time by the clock is that of a machine that does other things as well.
func TestAnEditOfTheConfigurationCostsACopy(t *testing.T) {
	repo, spore := buildSpore(t)
	work := t.TempDir()
	config := filepath.Join(work, "configs")
	require.NoError(t, copyTree(filepath.Join(repo, "examples", "edge"), config))
	out := filepath.Join(work, "out")
	before := build(t, spore, repo, config, out)

	file := filepath.Join(config, "cluster.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text = append(text, "# an edit\n"...)
	require.NoError(t, os.WriteFile(file, text, 0o644))
	after, took := measuredBuild(t, spore, repo, config, out)
	copying := exec.Command("cp", "--sparse=auto", "--reflink=never", after.Disk, filepath.Join(work, "copy"))
	run(t, copying)
	copied := copying.ProcessState.UserTime() + copying.ProcessState.SystemTime()
	t.Logf("built in %s, a copy takes %s", took, copied)
	require.Less(t, took, time.Second+copied)
	require.True(t, after.RootCached)
	require.Equal(t, before.RootHash, after.RootHash)
	require.NotEqual(t, before.ClusterHash, after.ClusterHash)
}

// TestARebuildCostsWhatChanged builds again after edits of each kind, and holds the processor's time to three times
// what it is to be: nothing, a file of overlay/, a package. What is made after an edit has the bytes of a build that
// knew nothing before.
func TestARebuildCostsWhatChanged(t *testing.T) {
	repo, spore := buildSpore(t)
	work := t.TempDir()
	source := filepath.Join(work, "source")
	require.NoError(t, copyTree(repo, source))
	config := filepath.Join(source, "examples", "edge")
	out := filepath.Join(work, "out")
	before := build(t, spore, source, config, out)
	require.False(t, before.Unchanged)

	unchanged := func() {
		t.Helper()
		r, took := measuredBuild(t, spore, source, config, out)
		t.Logf("nothing changed: %s", took)
		require.True(t, r.Unchanged)
		require.Less(t, took, 300*time.Millisecond)
	}
	unchanged()

	// An output that is not as it was left is made anew, whatever happened to it.
	sum := hash(t, before.Disk)
	for what, damage := range map[string]func(name string) error{
		"gone":    os.Remove,
		"damaged": func(name string) error { return overwrite(name, []byte("damage"), 300<<20) },
		"shorter": func(name string) error { return os.Truncate(name, 1<<20) },
	} {
		require.NoError(t, damage(before.Disk))
		require.False(t, build(t, spore, source, config, out).Unchanged, what)
		require.Equal(t, sum, hash(t, before.Disk), what)
		unchanged()
	}

	require.NoError(t, os.WriteFile(filepath.Join(source, "overlay", "usr", "lib", "an-edit"), []byte("an edit\n"), 0o644))
	edited, took := measuredBuild(t, spore, source, config, out)
	t.Logf("a file of overlay/: %s", took)
	require.False(t, edited.Unchanged)
	require.NotEqual(t, before.RootHash, edited.RootHash)
	require.Less(t, took, 3*time.Second)
	unchanged()

	// A folder of its own has no record, and its bytes are the same.
	again := build(t, spore, source, config, filepath.Join(work, "again"))
	require.False(t, again.Unchanged)
	require.Equal(t, hash(t, edited.Disk), hash(t, again.Disk))

	// The package is downloaded and compressed before, in a list with another one.
	image := filepath.Join(config, "image.yaml")
	text, err := os.ReadFile(image)
	require.NoError(t, err)
	add := func(packages string) {
		t.Helper()
		require.NoError(t, os.WriteFile(image, []byte(string(text)+"packages: ["+packages+"]\n"), 0o644))
	}
	add("strace, less")
	build(t, spore, source, config, out)
	add("strace")
	_, took = measuredBuild(t, spore, source, config, out)
	t.Logf("a package: %s", took)
	require.Less(t, took, 4500*time.Millisecond)
}

// overwrite writes bytes into a file, which keeps its length.
func overwrite(name string, data []byte, at int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, at)
	return errors.Join(err, f.Close())
}

func TestInspectTellsWhatIsInAnImage(t *testing.T) {
	t.Parallel()
	repo, spore := buildSpore(t)
	out := t.TempDir()
	built := build(t, spore, repo, filepath.Join(repo, "examples", "edge"), out)

	s, err := inspect.Read(built.Disk)
	require.NoError(t, err)
	require.Empty(t, s.Image.Problems)
	require.Equal(t, built.RootHash, s.Image.RootHash)
	require.Equal(t, built.ClusterHash, s.Image.ClusterHash)
	require.Equal(t, "plant", s.Cluster.Name)
	require.Len(t, s.Cluster.Nodes, 3)
	require.True(t, slices.ContainsFunc(s.Cluster.Nodes, func(n inspect.Node) bool {
		return n.Name == "edge-01" && slices.Equal(n.Roles, []string{"dns-server", "mqtt-broker"})
	}))
	var packages, payloads []string
	for _, p := range s.Manifest.Packages {
		packages = append(packages, p.Name)
		require.NotEmpty(t, p.Version)
		require.Len(t, p.SHA256, 64)
	}
	for _, p := range s.Manifest.Payloads {
		payloads = append(payloads, p.Name)
		require.Len(t, p.SHA256, 64)
	}
	require.Subset(t, packages, []string{"systemd", "mosquitto", "base-files"})
	require.Equal(t, []string{"spore-metrics", "spore-screen", "coredns", "spore-agent"}, payloads)

	node, cluster, err := inspect.ReadNode(built.Disk, "edge-01")
	require.NoError(t, err)
	require.Equal(t, "edge-01.plant.example", node.FQDN)
	require.Equal(t, s.Cluster.ID, cluster.ID)
	_, _, err = inspect.ReadNode(built.Disk, "edge-02")
	require.ErrorContains(t, err, "Its nodes are dns-01, edge-01, mqtt-01")
}

func TestTheRootHoldsWhatItsClusterUsesAndSaysFromWhere(t *testing.T) {
	t.Parallel()
	repo, spore := buildSpore(t)
	built := build(t, spore, repo, filepath.Join(repo, "examples", "edge"), t.TempDir())
	text, err := os.ReadFile(built.Manifest)
	require.NoError(t, err)
	var m manifest.Manifest
	require.NoError(t, json.Unmarshal(text, &m))

	t.Run("every file has an origin", func(t *testing.T) {
		require.Greater(t, len(m.Files), 1000)
		for _, f := range m.Files {
			require.NotEmpty(t, f.Origin, f.Path)
		}
	})
	t.Run("nothing of Kubernetes, Kafka and Ceph is there", func(t *testing.T) {
		carried := map[string]bool{}
		for _, p := range m.Packages {
			carried["package "+p.Name] = true
		}
		for _, p := range m.Payloads {
			carried["payload "+p.Name] = true
		}
		for _, f := range m.Files {
			carried["unit "+path.Base(f.Path)] = true
			if !strings.Contains(f.Path, "/kernel/") { // the kernel's modules for Ceph come with its package
				require.NotRegexp(t, foreign, f.Path)
			}
		}
		unused := 0
		for _, p := range services.Ours().Programs() {
			if slices.Contains(m.Programs, p.Name) {
				require.Contains(t, carried, "unit "+p.Unit)
				continue
			}
			unused++
			require.NotContains(t, carried, "unit "+p.Unit)
			for _, name := range p.Payloads {
				require.False(t, carried["payload "+name], "%s of %s", name, p.Name)
			}
			for _, name := range p.Packages {
				require.False(t, carried["package "+name] && foreign.MatchString(name), "%s of %s", name, p.Name)
			}
		}
		require.Greater(t, unused, 15)
	})
}

// foreign is in the names of what an edge site has no use for.
var foreign = regexp.MustCompile(`(?i)kafka|java|jdk|ceph|rados|rbd|kube|etcd|containerd|calico|/cni/`)

func TestInspectRefusesWhatIsNoImage(t *testing.T) {
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"empty": {nil, "it is too short for a disk image"},
		"zeros": {make([]byte, 1<<20), "it has no partition table"},
		"text":  {[]byte("hello"), "it is too short for a disk image"},
	} {
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, tt.data, 0o644))
		_, err := inspect.Read(file)
		require.ErrorContains(t, err, tt.want, name)
	}
}
