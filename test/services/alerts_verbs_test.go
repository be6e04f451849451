//go:build e2e

package services

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"spore/agent/answers"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/verbs"
	verbalerts "spore/agent/verbs/alerts"
	cmdalerts "spore/builder/cmd/alerts"
	"spore/builder/cmd/reach"
	"spore/cluster"
	"spore/cluster/facts"
	"spore/dashboard"
	"spore/pki"
	"spore/services/metrics"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// TestAlertsAreShownAndSilenced has Debian's Alertmanager on a node with the role alerts, which people ask through the
// node's API: who may look sees what fires, and an operator has nobody told of it for a while.
func TestAlertsAreShownAndSilenced(t *testing.T) {
	machines, c, tree := nodetest.BrokersOf(t, func(c *cluster.Config) {
		c.Cluster.Services = append(c.Cluster.Services, metrics.Name)
		c.Services = append(c.Services, &metrics.Settings{})
		c.Cluster.Nodes[0].Roles = append(c.Cluster.Nodes[0].Roles, metrics.Role, metrics.AlertsRole)
	}, "127.0.0.1")
	m := machines["kafka-1"]
	m.Say = func(string) {}
	require.NoError(t, os.MkdirAll(m.Root.At(paths.Live), 0o755))
	require.NoError(t, os.Symlink(m.Root.At(paths.Secrets+"/api"), m.Root.At(filepath.Join(paths.Live, node.APIProgram))))
	nodetest.Put(t, m, filepath.Join(paths.Secrets, metrics.Manager, metrics.AlertsPassword), "swordfish\n")
	manager := startAlertmanager(t, "swordfish")
	at := verbalerts.Alertmanager{Address: manager}
	handlers := map[string]verbs.Handler{
		"alerts": at.Show, "alerts-silences": at.Silences, "alerts-silence": at.Silence, "alerts-unsilence": at.Unsilence,
	}
	carriesOut(t, m, nodeapi.Looks, handlers)
	carriesOut(t, m, nodeapi.Acts, handlers)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer nodetest.Serve(t, m, func(ctx context.Context, m *node.Machine) error { return answers.ServeOn(ctx, m, l) })()

	person := func(row, name string) nodeapi.Client {
		made, err := tree.Access(c, row, name, time.Hour, pki.Options{Now: time.Now(), Random: rand.Reader})
		require.NoError(t, err)
		id := nodeapi.Identity{Certificate: []byte(made.Certificate), Key: []byte(made.Key), Authorities: made.Authority}
		return nodeapi.Client{
			Identity:  func() (nodeapi.Identity, error) { return id, nil },
			Addresses: func(string) ([]string, error) { return []string{l.Addr().String()}, nil },
		}
	}
	reader, operator := person(pki.NodeReader, "anna"), person(pki.NodeOperator, "bert")
	state := func(name string) machine.Alert {
		all, _, err := calls[machine.Alert](t, reader, "alerts", nodeapi.Order{})
		require.NoError(t, err)
		for _, a := range all {
			if a.Labels[machine.AlertName] == name {
				return a
			}
		}
		return machine.Alert{}
	}

	t.Run("nobody is let in without its password", func(t *testing.T) {
		for _, path := range []string{"/api/v2/alerts", "/api/v2/silences", "/metrics", "/", "/-/reload"} {
			r, err := http.Post("http://"+manager+path, "application/json", strings.NewReader("[]"))
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, r.Body)
			require.NoError(t, r.Body.Close())
			require.Equal(t, http.StatusUnauthorized, r.StatusCode, path)
		}
	})
	t.Run("nothing fires", func(t *testing.T) {
		all, done, err := calls[machine.Alert](t, reader, "alerts", nodeapi.Order{})
		require.NoError(t, err)
		require.Empty(t, all)
		require.Equal(t, "firing: 0, silenced: 0, held back: 0", done)
	})
	t.Run("what is posted is shown", func(t *testing.T) {
		postAlerts(t, manager, `[
			{"labels":{"alertname":"Watchdog","severity":"info"}},
			{"labels":{"alertname":"EtcdSlow","severity":"warning","instance":"edge-01"},"annotations":{"summary":"etcd is slow"}},
			{"labels":{"alertname":"NodeSilent","severity":"critical","instance":"edge-01"},
			 "annotations":{"summary":"edge-01 does not answer","runbook":"alerts#nodesilent"},"startsAt":"2026-01-02T03:04:05Z"}]`)
		require.Eventually(t, func() bool { return state("NodeSilent").State == machine.Fires }, 20*time.Second, 100*time.Millisecond)
		require.Equal(t, machine.Alert{
			Labels: map[string]string{"alertname": "NodeSilent", "severity": "critical", "instance": "edge-01"}, State: machine.Fires,
			Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Summary: "edge-01 does not answer", Runbook: "alerts#nodesilent",
		}, state("NodeSilent"))
		all, done, err := calls[machine.Alert](t, reader, "alerts", nodeapi.Order{})
		require.NoError(t, err)
		require.Equal(t, "firing: 2, silenced: 0, held back: 0", done)
		require.Equal(t, []string{"Watchdog", "NodeSilent", "EtcdSlow"},
			[]string{all[0].Labels["alertname"], all[1].Labels["alertname"], all[2].Labels["alertname"]})
	})

	silence := nodeapi.Order{Arguments: map[string]string{
		"name": "NodeSilent", "node": "edge-01", "for": "2h0m0s", "comment": `new "power" supply`,
	}}
	t.Run("a reader silences nothing", func(t *testing.T) {
		for _, verb := range []string{"alerts-silence", "alerts-unsilence"} {
			_, _, err := calls[machine.Silence](t, reader, verb, silence)
			require.ErrorContains(t, err, "is for certificates of")
		}
		require.Equal(t, machine.Fires, state("NodeSilent").State)
	})
	t.Run("nobody silences Watchdog by the way", func(t *testing.T) {
		for name, arguments := range map[string]map[string]string{
			"by its name": {"name": "Watchdog"}, "by a label that it has": {"labels": `{"severity":"info"}`},
		} {
			arguments["for"], arguments["comment"] = "5m0s", "why not"
			_, _, err := calls[machine.Silence](t, operator, "alerts-silence", nodeapi.Order{Arguments: arguments})
			require.ErrorContains(t, err, "--force watchdog does it nevertheless", name)
		}
		all, done, err := calls[machine.Silence](t, reader, "alerts-silences", nodeapi.Order{})
		require.NoError(t, err)
		require.Empty(t, all)
		require.Equal(t, "0 silences", done)
	})
	var id string
	t.Run("an operator silences an alert", func(t *testing.T) {
		made, done, err := calls[machine.Silence](t, operator, "alerts-silence", silence)
		require.NoError(t, err)
		require.Contains(t, done, "(1 of 3 alerts now)")
		id = made[0].ID
		require.Eventually(t, func() bool { return state("NodeSilent").State == machine.Silenced }, 20*time.Second, 100*time.Millisecond)
		by := state("NodeSilent").Silences[0]
		require.Equal(t, []string{id, "bert", `new "power" supply`}, []string{by.ID, by.By, by.Comment})
		require.WithinDuration(t, time.Now().Add(2*time.Hour), by.Ends, time.Minute)
		require.Equal(t, machine.Fires, state("EtcdSlow").State, "another alert of the node")

		all, _, err := calls[machine.Silence](t, reader, "alerts-silences", nodeapi.Order{})
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, id, all[0].ID)
		require.ElementsMatch(t, []machine.Matcher{
			{Name: "alertname", Value: "NodeSilent", Operator: "="}, {Name: "instance", Value: "edge-01", Operator: "="},
		}, all[0].Matchers)
	})
	t.Run("and ends the silence, once", func(t *testing.T) {
		end := nodeapi.Order{Arguments: map[string]string{"id": id}}
		_, done, err := calls[machine.Silence](t, operator, "alerts-unsilence", end)
		require.NoError(t, err)
		require.Contains(t, done, "has ended")
		require.Eventually(t, func() bool { return state("NodeSilent").State == machine.Fires }, 20*time.Second, 100*time.Millisecond)
		_, done, err = calls[machine.Silence](t, operator, "alerts-unsilence", end)
		require.NoError(t, err)
		require.Contains(t, done, "ended already")
		all, _, err := calls[machine.Silence](t, reader, "alerts-silences", nodeapi.Order{})
		require.NoError(t, err)
		require.Empty(t, all)
		end.Arguments["id"] = "3d1219c7-c4c5-404a-aa1f-6d2a48adfda4"
		_, _, err = calls[machine.Silence](t, operator, "alerts-unsilence", end)
		require.ErrorContains(t, err, "there is no silence 3d1219c7-c4c5-404a-aa1f-6d2a48adfda4")
	})
	t.Run("the page of spore dashboard does the same", func(t *testing.T) {
		nodetest.Put(t, m, paths.Status, `{"spore":1}`) // It is asked for first, to see which node answers.
		plant := &reach.Cluster{Facts: *c, Client: operator, Timeout: 10 * time.Second}
		plant.Nodes = []facts.Node{{Name: "kafka-1", Roles: []string{metrics.AlertsRole}}}
		done, err := cmdalerts.Silence(t.Context(), plant, dashboard.Wish{
			Name: "NodeSilent", Node: "edge-01", Labels: []string{"severity=critical"}, For: "2h", Comment: "by the page",
		})
		require.NoError(t, err)
		require.Contains(t, done, "(1 of 3 alerts now)")
		require.Eventually(t, func() bool { return state("NodeSilent").State == machine.Silenced }, 20*time.Second, 100*time.Millisecond)
		by := state("NodeSilent").Silences[0]
		require.Equal(t, []string{"bert", "by the page"}, []string{by.By, by.Comment})
		done, err = cmdalerts.Unsilence(t.Context(), plant, by.ID)
		require.NoError(t, err)
		require.Contains(t, done, "has ended")
		plant.Client = reader
		_, err = cmdalerts.Unsilence(t.Context(), plant, by.ID)
		require.ErrorContains(t, err, "is for certificates of")
	})
	t.Run("who did what is in the trail", func(t *testing.T) {
		data, err := reader.Read(t.Context(), "kafka-1", nodeapi.Request{Path: nodeapi.TrailPath}, 1<<20)
		require.NoError(t, err)
		var done []nodeapi.TrailRecord
		_, err = nodeapi.ReadTrail(bytes.NewReader(data), func(r nodeapi.TrailRecord) error {
			if r.Stage == nodeapi.Did {
				done = append(done, r)
			}
			return nil
		})
		require.NoError(t, err)
		require.Len(t, done, 5)
		require.Equal(t, []string{"alerts-silence", "bert"}, []string{done[0].Call, done[0].User})
		require.Equal(t, nodeapi.Operator, done[0].Role)
		require.Contains(t, done[0].Result, id)
		require.Equal(t, "alerts-unsilence", done[1].Call)
		require.Equal(t, []string{"alerts-silence", "bert"}, []string{done[3].Call, done[3].User}, "of the page")
		require.NotContains(t, string(data), "swordfish")
	})
}

// startAlertmanager runs the program of the image, which wants a password, and returns where it answers.
func startAlertmanager(t *testing.T, password string) string {
	t.Helper()
	dir := t.TempDir()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"alertmanager.yml": "route:\n  receiver: nobody\nreceivers:\n  - name: nobody\n",
		"web.yml":          fmt.Sprintf("basic_auth_users:\n  %s: %s\n", metrics.User, hash),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	at := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	args := append(managerOfImage(t), "--config.file=alertmanager.yml", "--web.config.file=web.yml", "--storage.path=data",
		"--web.listen-address="+at, "--cluster.listen-address=")
	cmd := exec.Command(args[0], args[1:]...)
	var log bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error means that it has ended
		_ = cmd.Wait()         // always "killed"
		if t.Failed() {
			t.Log(log.String())
		}
	})
	require.Eventually(t, func() bool { return asksAlertmanager(t, at, http.MethodGet, "/-/ready", "") == http.StatusOK },
		30*time.Second, 50*time.Millisecond, "it does not answer")
	return at
}

// asksAlertmanager asks with the password, and returns the status; 0 where it does not answer.
func asksAlertmanager(t *testing.T, at, method, path, body string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, "http://"+at+path, strings.NewReader(body))
	require.NoError(t, err)
	q.Header.Set("Content-Type", "application/json")
	q.SetBasicAuth(metrics.User, "swordfish")
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode
}

func postAlerts(t *testing.T, at, alerts string) {
	t.Helper()
	require.Equal(t, http.StatusOK, asksAlertmanager(t, at, http.MethodPost, "/api/v2/alerts", alerts))
}

// carriesOut is spore-look.socket or spore-act.socket of a machine.
func carriesOut(t *testing.T, m *node.Machine, kind nodeapi.Kind, handlers map[string]verbs.Handler) {
	t.Helper()
	socket := m.Root.At(verbs.Socket(kind))
	require.NoError(t, os.MkdirAll(filepath.Dir(socket), 0o755))
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = verbs.Serve(context.Background(), m, kind, handlers, conn, conn) // An error is told in the answer.
			}()
		}
	}()
}

// calls has a node carry out a verb.
func calls[T any](t *testing.T, who nodeapi.Client, verb string, o nodeapi.Order) (all []T, done string, err error) {
	t.Helper()
	body, err := json.Marshal(o)
	require.NoError(t, err)
	q := nodeapi.Request{Method: http.MethodPost, Path: nodeapi.VerbsPath + verb, Body: bytes.NewReader(body)}
	data, err := who.Read(t.Context(), "kafka-1", q, 1<<20)
	if err != nil {
		return nil, "", err
	}
	done, err = nodeapi.ReadEvents(bytes.NewReader(data), func(e nodeapi.Event) error {
		var some []T
		require.NoError(t, json.Unmarshal(e.Result, &some))
		all = append(all, some...)
		return nil
	})
	return all, done, err
}
