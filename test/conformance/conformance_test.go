//go:build integration

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/payload"
	"spore/test/kubecluster"
)

const (
	sourceTree = "../.."
	// config is the cluster whose flags and files the control plane has.
	config = "../services/testdata/kubernetes"
	// shards is how many parts of the tests run at a time; most of them wait for most of their time.
	shards = 5
	// shardLimit is ginkgo's own bound, so that what hangs is named in the report.
	shardLimit = 5 * time.Minute
	// list names the tests that run, one a line. UPDATE=1 writes it anew; a new Kubernetes has other tests.
	list = "testdata/tests.txt"
)

// spec is one test in a report of ginkgo.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeText            string
	LeafNodeType            string
	State                   string
	RunTime                 time.Duration
	Failure                 struct{ Message string }
}

func (s spec) name() string {
	return strings.Join(append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText), " ")
}

// suite is upstream's tests as a program, and what it is pointed at.
type suite struct {
	t          *testing.T
	program    string
	kubectl    string
	kubeconfig string
}

// run runs the tests that match one of the expressions and returns those that were not skipped.
func (s suite) run(focus []string, more ...string) ([]spec, error) {
	dir := s.t.TempDir()
	report := filepath.Join(dir, "report.json")
	args := []string{
		"--kubeconfig=" + s.kubeconfig, "--kubectl-path=" + s.kubectl, "--ginkgo.no-color", "--ginkgo.succinct",
		"--ginkgo.skip=\\[Slow\\]", "--ginkgo.timeout=" + shardLimit.String(), "--ginkgo.json-report=" + report,
	}
	for _, f := range focus {
		args = append(args, "--ginkgo.focus="+f)
	}
	cmd := exec.Command(s.program, append(args, more...)...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	runErr := cmd.Run()
	data, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("run upstream's tests: %w: %w\n%s", runErr, err, out.Bytes())
	}
	var reports []struct{ SpecReports []spec }
	if err := json.Unmarshal(data, &reports); err != nil {
		return nil, err
	}
	var ran []spec
	for _, r := range reports {
		for _, sp := range r.SpecReports {
			if sp.LeafNodeType == "It" && sp.State != "skipped" {
				ran = append(ran, sp)
			}
		}
	}
	if runErr != nil && len(ran) == 0 {
		return nil, fmt.Errorf("run upstream's tests: %w\n%s", runErr, out.Bytes())
	}
	return ran, nil
}

func newSuite(t *testing.T) suite {
	t.Helper()
	dir := t.TempDir()
	// It stays for the next run: to link it takes longer than to run some of its tests.
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	s := suite{t: t, program: filepath.Join(cache, "spore-tests", "conformance-suite"), kubectl: filepath.Join(dir, "usr", "bin", "kubectl"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	require.NoError(t, os.MkdirAll(filepath.Dir(s.program), 0o755))
	// As payloads are compiled, so that both share the compiler's cache.
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", payload.WithoutDWARF, "-ldflags", "-s -w", "-o", s.program, ".")
	build.Dir, build.Env = "suite", append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOGC=400")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "compile upstream's tests: %s", out)

	require.NoError(t, kubecluster.Programs(context.Background(), sourceTree, dir, "kubernetes", "etcd"))
	c, err := kubecluster.Load(config)
	require.NoError(t, err)
	n, err := c.Node("control-plane")
	require.NoError(t, err)
	r, err := c.Prepare(n, t.TempDir(), filepath.Join(sourceTree, "units"), func(name string) string { return filepath.Join(dir, "usr", "bin", name) })
	require.NoError(t, err)
	t.Cleanup(r.Stop)
	require.NoError(t, r.Start(context.Background(), "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"))
	credentials, err := r.Credentials(n.Name, "kubernetes-bootstrap", "kubernetes-agent")
	require.NoError(t, err)
	data, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]any{"server": credentials.Server, "certificate-authority-data": credentials.Authorities}}},
		"users": []any{map[string]any{"name": "x", "user": map[string]any{
			"client-certificate-data": credentials.Certificate, "client-key-data": credentials.Key,
		}}},
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "x", "user": "x"}}},
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.kubeconfig, data, 0o600))

	// Volumes are attached to nodes. No pod comes to this one, which has no kubelet.
	node := exec.Command(s.kubectl, "--kubeconfig="+s.kubeconfig, "create", "-f", "-")
	node.Stdin = strings.NewReader(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "no-kubelet"}, "spec": {"unschedulable": true}}`)
	out, err = node.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return s
}

func TestUpstreamsConformanceTestsThatNeedNoPodPass(t *testing.T) {
	s := newSuite(t)
	var focus []string
	for _, pattern := range selected {
		focus = append(focus, pattern+`.*\[Conformance\]`)
	}
	found, err := s.run(focus, "--ginkgo.dry-run")
	require.NoError(t, err)
	wanted := listed(t, found)
	for _, pattern := range selected {
		re := regexp.MustCompile(pattern)
		require.True(t, slices.ContainsFunc(found, func(sp spec) bool { return re.MatchString(sp.name()) }), "no test matches %s", pattern)
	}

	parts := make([][]string, shards)
	var last []string
	serial := regexp.MustCompile(alone)
	for i, sp := range found {
		name := regexp.QuoteMeta(sp.name())
		if serial.MatchString(sp.name()) {
			last = append(last, name)
			continue
		}
		parts[i%shards] = append(parts[i%shards], name)
	}
	ran := make([][]spec, shards)
	errs := make([]error, shards)
	var wait sync.WaitGroup
	for i, part := range parts {
		wait.Go(func() { ran[i], errs[i] = s.run(part) })
	}
	wait.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	afterwards, err := s.run(last)
	require.NoError(t, err)

	all := slices.Concat(append(ran, afterwards)...)
	slices.SortFunc(all, func(a, b spec) int { return strings.Compare(a.name(), b.name()) })
	var passed []string
	for _, sp := range all {
		if sp.State == "passed" {
			passed = append(passed, sp.name())
		}
		t.Logf("%-7s %5.1f s  %s", sp.State, sp.RunTime.Seconds(), sp.name())
	}
	for _, sp := range all {
		if sp.State != "passed" {
			t.Errorf("%s: %s: %s", sp.State, sp.name(), sp.Failure.Message)
		}
	}
	require.Equal(t, wanted, passed, "each of the list passed, and nothing else ran")
	t.Logf("%d of upstream's conformance tests passed", len(passed))
}

// listed are the names of the list, which are those that were found.
func listed(t *testing.T, found []spec) []string {
	t.Helper()
	var names []string
	for _, sp := range found {
		names = append(names, sp.name())
	}
	slices.Sort(names)
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(list, []byte(strings.Join(names, "\n")+"\n"), 0o644))
	}
	data, err := os.ReadFile(list)
	require.NoError(t, err)
	wanted := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	require.Equal(t, wanted, names, "upstream has other tests than %s: run with UPDATE=1, look at what changed", list)
	return wanted
}
