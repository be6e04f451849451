package renewal

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"encoding/json"

	"github.com/stretchr/testify/require"

	"spore/services"
	"spore/services/service"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

func TestEveryProgramThatHasCertificatesIsInTheTable(t *testing.T) {
	p := newPlant(t)
	entries := map[string]bool{}
	for _, n := range p.nodes {
		for ref := range Entries(p.share(n.Name)) {
			entries[ref] = true
		}
	}
	rows := map[string]int{}
	for _, r := range Programs(services.Ours()) {
		rows[r.Program]++
		require.Equal(t, r.Leaves == service.Signals || slices.Contains(waysOf(r), service.Signals), r.Signal != "", r.Program)
		for file := range r.Trust {
			require.Contains(t, p.tree.Public().Trust(), file, r.Program)
		}
	}
	for name, n := range rows {
		_, ok := services.Ours().LookupProgram(name)
		require.True(t, ok, name)
		require.Equal(t, 1, n, name)
	}
	for _, program := range services.Ours().Programs() {
		if slices.ContainsFunc(program.Secrets, func(ref string) bool { return entries[ref] }) {
			require.Contains(t, rows, program.Name, "say in Programs how %s takes a new certificate", program.Name)
		}
	}
}

func waysOf(r service.Renewal) (out []service.Way) {
	for _, w := range r.Trust {
		out = append(out, w)
	}
	return out
}

func TestThePlanNamesThoseThatDoNotTakeItByThemselves(t *testing.T) {
	p := newPlant(t)
	master, edge := p.share("master-01"), p.share("edge-01")
	programs := func(name string) []string {
		n, err := p.node(name)
		require.NoError(t, err)
		return ProgramsOf(p.c, n)
	}
	for name, tt := range map[string]struct {
		secrets map[string][]string
		trust   []string
		want    map[string]service.Way
	}{
		"nothing":                               {nil, nil, map[string]service.Way{}},
		"certificates that are read":            {map[string][]string{"etcd": {"etcd-peer-certificate", "etcd-peer-key"}, "kube-apiserver": {"kube-apiserver-certificate"}}, nil, map[string]service.Way{}},
		"the agent of Kubernetes":               {map[string][]string{"kubernetes-bootstrap": {"kubernetes-agent-key"}}, nil, map[string]service.Way{"kubernetes-bootstrap": service.Restarts}},
		"a secret that is no certificate":       {map[string][]string{"kube-apiserver": {"etcd-encryption-key"}}, nil, map[string]service.Way{"kube-apiserver": service.Restarts}},
		"the key of an authority":               {map[string][]string{"kube-controller-manager": {"kubernetes-client-ca-key"}}, nil, map[string]service.Way{"kube-controller-manager": service.Restarts}},
		"whom etcd trusts":                      {nil, []string{"etcd-client.crt"}, map[string]service.Way{"etcd": service.Restarts}},
		"whom the API server trusts, by itself": {nil, []string{"front-proxy.crt"}, map[string]service.Way{}},
		"an authority of others":                {nil, []string{"mqtt.crt", "kafka.crt"}, map[string]service.Way{}},
	} {
		got := Plan(services.Ours(), master, tt.secrets, tt.trust, programs("master-01"))
		require.Equal(t, tt.want, got, name)
	}
	require.Equal(t, map[string]service.Way{"mosquitto": service.Signals}, Plan(services.Ours(), edge, map[string][]string{"mosquitto": {"mqtt-tls-certificate"}}, nil, programs("edge-01")))
	require.Equal(t, map[string]service.Way{"mosquitto": service.Restarts}, Plan(services.Ours(), edge, map[string][]string{"mosquitto": {"mqtt-tls-certificate", "mqtt-password-sensor"}}, nil, programs("edge-01")))
}

// fleet is a few nodes with one program each, in one process.
type fleet struct {
	t       *testing.T
	mu      sync.Mutex
	files   map[string]*File
	down    map[string]bool
	silent  map[string]bool
	most    int
	order   []string
	program string
}

func newFleet(t *testing.T, names ...string) *fleet {
	f := &fleet{t: t, files: map[string]*File{}, down: map[string]bool{}, silent: map[string]bool{}, program: "etcd"}
	for _, name := range names {
		f.files[name] = &File{Path: filepath.Join(t.TempDir(), name, "state.json")}
		require.NoError(t, f.files[name].Change(func(s *State) { s.Add(map[string]service.Way{f.program: service.Restarts}, 100) }))
	}
	return f
}

func (f *fleet) ask(_ context.Context, node string) (nodeapi.Renewal, error) {
	f.mu.Lock()
	silent, down := f.silent[node], f.down[node]
	f.mu.Unlock()
	if silent {
		return nodeapi.Renewal{}, errors.New("no answer in time")
	}
	s, err := f.files[node].Read()
	var units []string
	if !down {
		units = []string{"etcd.service"}
	}
	return s.Answer(units, 1), err
}

// machine is systemd of one node.
type machine struct {
	f    *fleet
	name string
	at   uint64
}

func (m *machine) Started(context.Context, string) (uint64, bool, error) {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	return m.at, !m.f.down[m.name], nil
}

func (m *machine) Restart(_ context.Context, unit string) error {
	m.f.mu.Lock()
	m.f.down[m.name] = true
	down := 0
	for _, d := range m.f.down {
		if d {
			down++
		}
	}
	m.f.most = max(m.f.most, down)
	m.f.order = append(m.f.order, m.name)
	m.f.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	m.f.down[m.name], m.at = false, 200
	return nil
}

func (m *machine) Reload(_ context.Context, unit, signal string) error {
	return fmt.Errorf("%s is not to be told %s", unit, signal)
}

func (f *fleet) applier(name string) *Applier {
	others := []string{}
	for other := range f.files {
		if other != name {
			others = append(others, other)
		}
	}
	return &Applier{
		Services: services.Ours(),
		Node:     name, File: f.files[name], Units: &machine{f, name, 50}, Others: func(string) []string { return others }, Ask: f.ask,
		Urgent: func(string) bool { return false }, Say: func(s string) { f.t.Log(name + ": " + s) }, Every: time.Millisecond,
		Sleep: func(ctx context.Context, d time.Duration) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(d):
				return nil
			}
		},
	}
}

func TestOneNodeAtATimeIsRestarted(t *testing.T) {
	for round := range 20 {
		f := newFleet(t, "master-01", "master-02", "master-03", "master-04", "master-05")
		var all sync.WaitGroup
		for name := range f.files {
			all.Go(func() {
				if err := f.applier(name).Apply(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, 1, f.most, "round %d", round)
		require.Len(t, f.order, 5)
		for _, file := range f.files {
			s, err := file.Read()
			require.NoError(t, err)
			require.Empty(t, s.Pending)
			require.Empty(t, s.Turn)
			require.Empty(t, s.Problem)
			require.NotZero(t, s.Changed)
		}
	}
}

func TestNobodyIsRestartedWhileAnotherIsDown(t *testing.T) {
	for name, tt := range map[string]struct {
		lose func(*fleet)
		want string
	}{
		"stopped": {func(f *fleet) { f.down["master-02"] = true }, "etcd does not run on master-02"},
		"silent":  {func(f *fleet) { f.silent["master-02"] = true }, "master-02 does not say how it is (no answer in time)"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "master-01", "master-02", "master-03")
			tt.lose(f)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			a := f.applier("master-01")
			require.ErrorIs(t, a.Apply(ctx), context.DeadlineExceeded)
			require.Empty(t, f.order)
			s, err := a.File.Read()
			require.NoError(t, err)
			require.Contains(t, s.Problem, "etcd waits for its turn to be restarted: "+tt.want)
			require.Contains(t, s.Pending, "etcd", "it is still to be done")
			require.Empty(t, s.Turn, "it is in nobody's way")

			f.down, f.silent = map[string]bool{}, map[string]bool{}
			require.NoError(t, a.Apply(t.Context()))
			require.Equal(t, []string{"master-01"}, f.order)

			// One whose certificate is about to end waits no longer: without, it serves nobody either.
			f = newFleet(t, "master-01", "master-02", "master-03")
			tt.lose(f)
			a = f.applier("master-01")
			a.Urgent = func(string) bool { return true }
			require.NoError(t, a.Apply(t.Context()))
			require.Equal(t, []string{"master-01"}, f.order)
		})
	}
}

func TestWhatWasStartedSinceHasIt(t *testing.T) {
	f := newFleet(t, "master-01")
	a := f.applier("master-01")
	for _, at := range []uint64{0, 101} { // not running, started later
		require.NoError(t, a.File.Change(func(s *State) { s.Add(map[string]service.Way{"etcd": service.Restarts}, 100) }))
		a.Units = &machine{f, "master-01", at}
		require.NoError(t, a.Apply(t.Context()))
		require.Empty(t, f.order)
		s, err := a.File.Read()
		require.NoError(t, err)
		require.Empty(t, s.Pending)
	}
}

// told notes what programs are told.
type told struct {
	machine
	signals []string
}

func (m *told) Reload(_ context.Context, unit, signal string) error {
	m.signals = append(m.signals, unit+" "+signal)
	return nil
}

func TestASignalIsSentToWhatRuns(t *testing.T) {
	f := newFleet(t, "edge-01")
	a := f.applier("edge-01")
	m := &told{machine: machine{f, "edge-01", 50}}
	a.Units = m
	require.NoError(t, a.File.Change(func(s *State) { s.Pending = nil; s.Add(map[string]service.Way{"mosquitto": service.Signals}, 100) }))
	require.NoError(t, a.Apply(t.Context()))
	require.Equal(t, []string{"mosquitto.service HUP"}, m.signals)
	require.Empty(t, f.order)

	// One that is being started may have read the former ones.
	f.down["edge-01"] = true
	require.NoError(t, a.File.Change(func(s *State) { s.Add(map[string]service.Way{"mosquitto": service.Signals}, 100) }))
	require.NoError(t, a.Apply(t.Context()))
	require.Len(t, m.signals, 1)
	require.Equal(t, []string{"edge-01"}, f.order)
}

func TestOneThatFailsDoesNotKeepTheOthers(t *testing.T) {
	f := newFleet(t, "edge-01")
	a := f.applier("edge-01")
	require.NoError(t, a.File.Change(func(s *State) { s.Add(map[string]service.Way{"kube-balancer": service.Signals}, 100) }))
	require.ErrorContains(t, a.Apply(t.Context()), "kube-balancer: kube-balancer.service is not to be told USR2")
	require.Equal(t, []string{"edge-01"}, f.order, "etcd")
	s, err := a.File.Read()
	require.NoError(t, err)
	require.Equal(t, []string{"kube-balancer"}, s.Names())
}

func TestANodeSaysHowFarItIs(t *testing.T) {
	dir := t.TempDir()
	file, status := filepath.Join(dir, "state.json"), filepath.Join(dir, "status.json")
	get := func() (r nodeapi.Renewal) {
		w := httptest.NewRecorder()
		StateHandler(file, status)(w, httptest.NewRequest("GET", nodeapi.RenewalPath, nil))
		require.Equal(t, 200, w.Code)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
		return r
	}
	require.Empty(t, get().Pending, "nothing was written yet")
	require.NoError(t, (&File{Path: file}).Change(func(s *State) {
		s.Serial, s.Revision, s.Changed = 3, 7, Clock()
		s.Add(map[string]service.Way{"kafka": service.Restarts}, Clock())
	}))
	require.NoError(t, atomicfile.WriteJSON(status, map[string]any{"services": map[string]string{"kafka.service": "active", "etcd.service": "failed"}}))
	r := get()
	require.Equal(t, uint64(3), r.Serial)
	require.Equal(t, uint64(7), r.Revision)
	require.Equal(t, []string{"kafka"}, r.Pending)
	require.Equal(t, []string{"kafka.service"}, r.Units)
	require.Less(t, r.Settled, 60.0)
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	w := httptest.NewRecorder()
	StateHandler(file, status)(w, httptest.NewRequest("GET", nodeapi.RenewalPath, nil))
	require.Equal(t, 500, w.Code)
}

func TestOwnCertificatesOfAnotherAuthorityAreDropped(t *testing.T) {
	p := newPlant(t)
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "pki"), 0o700))
	current, config := filepath.Join(dir, "pki", "kubelet-client-current.pem"), filepath.Join(dir, "kubeconfig")
	trust := func(name string) ([]byte, error) { return []byte(p.tree.Public().Trust()[name]), nil }
	own := []Own{{Authority: "kubernetes-client.crt", File: current, With: []string{config}}}
	drop := func() []string {
		require.NoError(t, os.WriteFile(config, []byte("{}"), 0o600))
		// As kubelet has it, with its key.
		require.NoError(t, os.WriteFile(current, []byte(p.bundles["worker-01"]["kube-proxy-key"]+p.bundles["worker-01"]["kube-proxy-certificate"]), 0o600))
		dropped, err := DropForeign(own, trust)
		require.NoError(t, err)
		return dropped
	}
	require.Empty(t, drop())
	require.NoError(t, p.tree.Introduce("kubernetes-client", p.c, pkiOptions()))
	require.Empty(t, drop(), "the old one signs")
	require.NoError(t, p.tree.Switch("kubernetes-client"))
	require.Equal(t, []string{current, config}, drop())
	require.NoFileExists(t, current)
	require.NoFileExists(t, config)
	dropped, err := DropForeign(own, trust)
	require.NoError(t, err)
	require.Empty(t, dropped, "there is none yet")
}
