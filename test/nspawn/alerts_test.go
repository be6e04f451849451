//go:build e2e

package nspawn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sys/unix"

	"spore/services/metrics"
	"spore/test/client"
	"spore/wire/machine"
)

const (
	// slack is how much later than its rule says an alert may be seen or gone: the store asks each 5 seconds, rules are
	// evaluated each 30 with samples that are 30 old, and one is looked for each 10 seconds on a busy machine.
	slack = 150 * time.Second
	// forgets is how long the windows of the rules look back on a fault that has ended.
	forgets = 6 * time.Minute
	// between is the time between two looks.
	between = 10 * time.Second
	// shiftAddress is where the test takes what is sent, as services/metrics.yaml says.
	shiftAddress = "10.77.0.1:8000"
	// spare is a network card that a node has beside its own, and its other end.
	spare, spareEnd = "eth9", "plug9"
)

// alertKey is an alert as the tests know it.
type alertKey struct{ name, node string }

func (k alertKey) String() string { return strings.TrimSuffix(k.name+"@"+k.node, "@") }

// fault is one that is made on a node, and ended.
type fault struct {
	name string
	// alerts are what it causes, and after what time the rule says so.
	alerts map[alertKey]time.Duration
	// may are alerts that it can cause, too.
	may        []alertKey
	begin, end func(t *testing.T)
}

// shift is everybody outside of the cluster: who is told, who misses heartbeats, and the DNS server of the plant.
type shift struct {
	mu         sync.Mutex
	heartbeats int
	told       map[string]map[alertKey]bool // by status
	silent     bool
	// stopped says that the press, which the plant's own rule looks at, has no metrics.
	stopped bool
}

// watch starts what the cluster speaks with.
func watch(t *testing.T) *shift {
	t.Helper()
	s := &shift{told: map[string]map[alertKey]bool{"firing": {}, "resolved": {}}}
	mux := http.NewServeMux()
	mux.HandleFunc("/heartbeat", func(http.ResponseWriter, *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.heartbeats++
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stopped {
			http.Error(w, "the press is off", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "press_strokes_total 7\n")
	})
	mux.HandleFunc("/shift", func(w http.ResponseWriter, r *http.Request) {
		var message struct {
			Alerts []struct {
				Status string
				Labels map[string]string
			}
		}
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&message); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, a := range message.Alerts {
			if all := s.told[a.Status]; all != nil {
				all[alertKey{a.Labels[machine.AlertName], a.Labels[machine.AlertNode]}] = true
			}
		}
	})
	listener, err := net.Listen("tcp", shiftAddress)
	require.NoError(t, err)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	packets, err := net.ListenPacket("udp", "10.77.0.1:53")
	require.NoError(t, err)
	names := &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		s.mu.Lock()
		silent := s.silent
		s.mu.Unlock()
		if !silent {
			_ = w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeNameError))
		}
	})}
	go func() { _ = names.ActivateAndServe() }()
	t.Cleanup(func() { _ = names.Shutdown() })
	return s
}

// answers says whether the DNS server of the plant does.
func (s *shift) answers(does bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = !does
}

// presses says whether the press does.
func (s *shift) presses(does bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = !does
}

// was is what was told with a status.
func (s *shift) was(status string) map[alertKey]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.told[status])
}

// faultDay is a cluster that watches itself.
type faultDay struct {
	*Lab
	*shift
	mu      sync.Mutex
	asking  time.Duration
	clients []*client.MQTT
}

// ask has a DNS server of the cluster be asked for foreign names, all the time; none of the answers is waited for.
func (d *faultDay) ask(ctx context.Context, server *Node) {
	conn, err := net.Dial("udp", net.JoinHostPort(server.IP(), "53"))
	if err != nil {
		return
	}
	defer conn.Close()
	for i := 0; ctx.Err() == nil; i++ {
		question, err := new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.plant.example.", i), dns.TypeA).Pack()
		if err == nil {
			_, _ = conn.Write(question) // It may be refused while the server does not run.
		}
		d.mu.Lock()
		pause := d.asking
		d.mu.Unlock()
		time.Sleep(pause)
	}
}

// often sets how long lies between two questions.
func (d *faultDay) often(pause time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asking = pause
}

// connects has two clients connect to a node's broker.
func (d *faultDay) connects(t *testing.T, n *Node) {
	t.Helper()
	for i := range 2 {
		c, err := client.DialMQTT(client.MQTTOptions{
			Address: net.JoinHostPort(n.IP(), "8883"), ServerName: n.Facts.FQDN, Roots: d.Authority("mqtt"),
			ID: fmt.Sprint("plc-", i), User: "operator", Password: edgePassword,
		})
		require.NoError(t, err)
		d.clients = append(d.clients, c)
	}
}

func (d *faultDay) disconnects() {
	for _, c := range d.clients {
		c.Close()
	}
	d.clients = nil
}

// topics makes a topic with a copy on each broker, and one whose partitions have one copy.
func (d *faultDay) topics(t *testing.T) {
	t.Helper()
	o := client.KafkaOptions{Roots: d.Authority("kafka"), User: "admin", Password: adminPassword}
	for _, name := range []string{"kafka-1", "kafka-2", "kafka-3"} {
		o.Seeds = append(o.Seeds, net.JoinHostPort(d.Node(name).IP(), clientPort))
	}
	c, err := client.NewKafka(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	b := &brokers{Lab: d.Lab, client: c, admin: kadm.NewClient(c)}
	for name, copies := range map[string]int16{"safe": 3, "single": 1} {
		b.within("topics can be made", func(ctx context.Context) error {
			made, err := b.admin.CreateTopic(ctx, 6, copies, nil, name)
			return errors.Join(err, made.Err)
		})
	}
}

// plug gives a node a second card with a cable.
func (d *faultDay) plug(t *testing.T, n *Node) {
	t.Helper()
	leader, err := n.leader()
	require.NoError(t, err)
	there := []string{"-t", leader, "-n", "--", "ip", "link"}
	require.NoError(t, run("nsenter", append(there, "add", spare, "type", "veth", "peer", "name", spareEnd)...))
	require.NoError(t, run("nsenter", append(there, "set", spare, "up")...))
	cable(t, n, "up")
}

// cable pulls the cable of a node's second card, or puts it in.
func cable(t *testing.T, n *Node, state string) {
	t.Helper()
	leader, err := n.leader()
	require.NoError(t, err)
	require.NoError(t, run("nsenter", "-t", leader, "-n", "--", "ip", "link", "set", spareEnd, state))
}

// fills leaves a node's disk a fiftieth of its room, by a file without content.
func fills(t *testing.T, n *Node) {
	t.Helper()
	var s unix.Statfs_t
	require.NoError(t, unix.Statfs(n.Var(), &s))
	f, err := os.Create(filepath.Join(n.Var(), "full"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Fallocate(int(f.Fd()), 0, 0, (int64(s.Bavail)-int64(s.Blocks)/50)*s.Bsize))
}

// breaks has the kernel find an error in a node's file system, which is mounted as nodes mount it.
func breaks(t *testing.T, n *Node) {
	t.Helper()
	// The node has its disk at a second place, where the rule does not look and its collector finds it first.
	n.MustExec("umount", "-l", inside+"/var")
	require.NoError(t, run("mount", "-o", "remount,errors=remount-ro", n.Var()))
	device, err := exec.Command("findmnt", "--noheadings", "--output", "SOURCE", n.Var()).Output()
	require.NoError(t, err)
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(strings.TrimSpace(string(device))), "trigger_fs_error")
	// The tests have a /sys that is read-only, and a network has one of its own.
	require.NoError(t, run("unshare", "--net", "--mount", "--propagation=private", "--", "sh", "-ec",
		`mount -t sysfs sysfs /sys; echo "an error of the test" >"$0"`, trigger))
}

// faults are those of the day; without all, those of two nodes whose rules wait for 3 minutes at most.
func (d *faultDay) faults(all bool) []fault {
	edge, other, lost, broken := d.Node("edge-1"), d.Node("edge-2"), d.Node("edge-3"), d.Node("edge-4")
	broker := d.Node("kafka-3")
	faults := []fault{
		{
			name:   "a cable is pulled",
			alerts: map[alertKey]time.Duration{{"LinkLost", "edge-1"}: 2 * time.Minute},
			begin:  func(t *testing.T) { cable(t, edge, "down") },
			end:    func(t *testing.T) { cable(t, edge, "up") },
		},
		{
			name:   "a program is killed and may not start again",
			alerts: map[alertKey]time.Duration{{"NodeUnitFailed", "edge-2"}: 3 * time.Minute},
			begin: func(*testing.T) {
				other.MustExec("sh", "-ec", `d=/run/systemd/system/coredns.service.d; mkdir -p $d
					printf '[Service]\nRestart=no\n' >$d/test.conf
					systemctl daemon-reload; systemctl kill --signal=KILL coredns.service`)
			},
			end: func(*testing.T) {
				other.MustExec("sh", "-ec", `rm /run/systemd/system/coredns.service.d/test.conf
					systemctl daemon-reload; systemctl start coredns.service`)
			},
		},
		{
			name:   "a disk fills",
			alerts: map[alertKey]time.Duration{{"DiskFull", "edge-2"}: time.Minute},
			may:    []alertKey{{"DiskNearlyFull", "edge-2"}},
			begin:  func(t *testing.T) { fills(t, other) },
			end:    func(t *testing.T) { require.NoError(t, os.Remove(filepath.Join(other.Var(), "full"))) },
		},
		{
			name:   "a file system has an error, and takes no more writes",
			alerts: map[alertKey]time.Duration{{"DiskReadOnly", "edge-4"}: time.Minute},
			// What the node says of itself then.
			may:   []alertKey{{"NodeConditionFailing", "edge-4"}, {"NodeUnitFailed", "edge-4"}},
			begin: func(t *testing.T) { breaks(t, broken) },
			end:   func(*testing.T) { broken.PowerLoss(); broken.Start(); broken.Running() },
		},
	}
	if !all {
		return faults
	}
	faults[2].alerts[alertKey{"DiskNearlyFull", "edge-2"}] = 5 * time.Minute
	return append(faults,
		fault{
			name: "the DNS servers that foreign names are asked of are silent",
			alerts: map[alertKey]time.Duration{
				{"DNSErrors", "edge-1"}: 3 * time.Minute, {"DNSForwardersSilent", "edge-1"}: 3 * time.Minute,
			},
			begin: func(*testing.T) { d.answers(false) },
			end:   func(*testing.T) { d.answers(true); d.often(40 * time.Millisecond) },
		},
		fault{
			name:   "a node loses power",
			alerts: map[alertKey]time.Duration{{"NodeSilent", "edge-3"}: 5 * time.Minute},
			begin:  func(*testing.T) { lost.PowerLoss() },
			end:    func(*testing.T) { lost.Start(); lost.Running() },
		},
		fault{
			name: "a broker of Kafka is stopped",
			alerts: map[alertKey]time.Duration{
				{"KafkaPartitionsOffline", ""}: time.Minute, {"KafkaBrokerMissing", ""}: 3 * time.Minute,
				{"KafkaCopiesShort", ""}: 5 * time.Minute, {"QuorumMemberMissing", "kafka-3"}: 5 * time.Minute,
			},
			begin: func(*testing.T) { broker.MustExec("systemctl", "stop", "kafka.service") },
			end:   func(*testing.T) { broker.MustExec("systemctl", "start", "--no-block", "kafka.service") },
		},
		fault{
			name:   "a program has made too many files",
			alerts: map[alertKey]time.Duration{{"DiskFilesNearlyUsedUp", "edge-1"}: 5 * time.Minute},
			begin: func(*testing.T) {
				edge.MustExec("sh", "-ec", `d=/var/lib/plant; mkdir $d; mount -t tmpfs -o size=1m,nr_inodes=20 plant $d
					i=0; while [ $i -lt 18 ]; do i=$((i+1)); : >$d/$i; done`)
			},
			end: func(*testing.T) { edge.MustExec("sh", "-c", "rm /var/lib/plant/*") },
		},
		fault{
			name:   "a machine of the plant stops, which has a rule of the plant's own",
			alerts: map[alertKey]time.Duration{{"PressSilent", shiftAddress}: time.Minute},
			begin:  func(*testing.T) { d.presses(false) },
			end:    func(*testing.T) { d.presses(true) },
		},
		fault{
			name:   "all clients of a broker are gone",
			alerts: map[alertKey]time.Duration{{"MQTTBrokerWithoutClients", "edge-1"}: 5 * time.Minute},
			begin:  func(*testing.T) { d.disconnects() },
			end:    func(t *testing.T) { d.connects(t, edge) },
		},
	)
}

// look is which alerts `spore alerts` shows, but the one that always fires; an error where it does not.
func (d *faultDay) look(ctx context.Context) (map[alertKey]machine.Alert, error) {
	configs, err := filepath.Abs(d.options.Configs)
	if err != nil {
		return nil, err
	}
	// It exits with 1 where an alert fires.
	cmd := exec.CommandContext(ctx, d.program, "alerts", configs, "--pki", filepath.Join(d.dir, "keys"), "--json")
	var said strings.Builder
	cmd.Stderr = &said
	out, _ := cmd.Output()
	var answers []struct{ Results [][]machine.Alert }
	if err := json.Unmarshal(out, &answers); err != nil {
		return nil, fmt.Errorf("spore alerts: %w: %s %s", err, out, said.String())
	}
	alerts := map[alertKey]machine.Alert{}
	for _, answer := range answers {
		for _, part := range answer.Results {
			for _, a := range part {
				alerts[alertKey{a.Labels[machine.AlertName], a.Labels[machine.AlertNode]}] = a
			}
		}
	}
	watchdog := alertKey{name: metrics.Watchdog}
	if alerts[watchdog].State != machine.Fires {
		return nil, errors.New("the alert that always fires does not: " + said.String())
	}
	delete(alerts, watchdog)
	return alerts, nil
}

// until looks until ok, and holds each time that nothing fires which may not.
func (d *faultDay) until(
	t *testing.T, what string, limit time.Duration, may map[alertKey]bool, ok func(map[alertKey]machine.Alert) bool,
) {
	t.Helper()
	var seen map[alertKey]machine.Alert
	for end := time.Now().Add(limit); ; time.Sleep(between) {
		var err error
		if seen, err = d.look(t.Context()); err == nil {
			for k, a := range seen {
				require.True(t, may[k], "%s fires, and nothing of it happened: %+v", k, a)
			}
			if ok(seen) {
				return
			}
		}
		if time.Now().After(end) {
			require.FailNow(t, what+" did not come", "after %s: %v; %v", limit, slices.Collect(maps.Keys(seen)), err)
		}
	}
}

// asked waits until a query of the store has an answer.
func (d *faultDay) asked(t *testing.T, query string) {
	t.Helper()
	require.Eventually(t, func() bool {
		out, _, ok := d.spore(t.Context(), "metrics", query)
		return ok && strings.Contains(out, "{")
	}, 3*time.Minute, 5*time.Second, query)
}

// TestAlertsOfRealFaults breaks what runs, in many places at the same time, and holds that `spore alerts` shows each of
// the faults within its bound and none that there is not, that people outside are told, and that each alert ends with
// its fault. By SPORE_SOAK these are all faults, with three brokers of Kafka; otherwise four that are seen and forgotten
// soon, on the nodes that it takes.
func TestAlertsOfRealFaults(t *testing.T) {
	all := os.Getenv("SPORE_SOAK") != ""
	secrets := map[string]string{"mqtt-password-operator": edgePassword, "kafka-password-admin": adminPassword}
	d := &faultDay{asking: 4 * time.Second, Lab: New(t, Options{Source: "../..", Configs: "testdata/alerts", Secrets: secrets})}
	d.shift = watch(t)
	edge := d.Node("edge-1")
	may := map[alertKey]bool{}
	if all {
		d.StartAll()
		d.topics(t)
		d.connects(t, edge)
		t.Cleanup(d.disconnects)
	} else {
		d.StartAll("observer", "edge-1", "edge-2", "edge-4")
		for _, n := range d.Nodes() {
			may[alertKey{"NodeSilent", n.Facts.Name}] = !n.Up() // Nobody has switched them on.
		}
	}
	off := maps.Clone(may)
	d.plug(t, edge)
	go d.ask(t.Context(), edge)
	faults := d.faults(all)
	for _, f := range faults {
		for k := range f.alerts {
			may[k] = true
		}
		for _, k := range f.may {
			may[k] = true
		}
	}

	d.Step("nothing fires, and heartbeats come", func(t *testing.T) {
		d.until(t, "the alert that always fires", 3*time.Minute, nil, func(map[alertKey]machine.Alert) bool { return true })
		d.asked(t, `node_network_carrier{device="`+spare+`"} == 1`)
		if all {
			d.asked(t, `coredns_forward_healthcheck_broken_total offset 2m`)
			d.asked(t, `mosquitto_clients_connected{instance="edge-1"} > 1`)
			d.asked(t, `min(kafka_brokers) == 3 and sum(spore_kafka_under_replicated_partitions) == 0`)
		}
		require.Eventually(t, func() bool {
			d.shift.mu.Lock()
			defer d.shift.mu.Unlock()
			return d.heartbeats > 0
		}, 3*time.Minute, time.Second, "a heartbeat")
	})

	begun, seen := map[alertKey]time.Time{}, map[alertKey]time.Duration{}
	want := map[alertKey]time.Duration{}
	longest := time.Duration(0)
	d.random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	quiet := alertKey{}
	d.Step("each fault is seen within its bound, and an operator silences one", func(t *testing.T) {
		for _, f := range faults {
			f.begin(t)
			for k, after := range f.alerts {
				begun[k], want[k] = time.Now(), after
				longest = max(longest, after)
			}
		}
		d.until(t, "an alert of each fault", longest+slack, may, func(now map[alertKey]machine.Alert) bool {
			for k := range now {
				if _, known := seen[k]; known || want[k] == 0 {
					continue
				}
				seen[k] = time.Since(begun[k])
				t.Logf("%s is seen %.0f s after its fault; its rule waits for %s", k, seen[k].Seconds(), want[k])
				if quiet.name == "" && k.node != "" {
					quiet = k
					args := []string{k.name, "--node", k.node, "--for", "2h", "--comment", "it is known"}
					_, said, ok := d.spore(t.Context(), "alerts silence", args...)
					require.True(t, ok, said)
				}
			}
			for k := range want {
				if _, known := seen[k]; !known || now[k].State == "" {
					return false
				}
			}
			return true
		})
		for k, after := range want {
			require.GreaterOrEqual(t, seen[k], after, k)
			require.Less(t, seen[k], after+slack, k)
		}
		d.until(t, "the silence", time.Minute, may, func(now map[alertKey]machine.Alert) bool {
			for k := range want {
				if (now[k].State == machine.Silenced) != (k == quiet) {
					return false
				}
			}
			return true
		})
	})
	d.Step("each ends with its fault", func(t *testing.T) {
		for _, f := range faults {
			f.end(t)
		}
		ended := time.Now()
		d.until(t, "the end of all alerts", forgets, may, func(now map[alertKey]machine.Alert) bool {
			for k := range now {
				if !off[k] {
					return false
				}
			}
			return true
		})
		t.Logf("all have ended %.0f s after the faults", time.Since(ended).Seconds())
	})
	d.Step("people were told of each, and of its end", func(t *testing.T) {
		require.Eventually(t, func() bool {
			for k := range want {
				if k != quiet && (!d.was("firing")[k] || !d.was("resolved")[k]) {
					return false
				}
			}
			return true
		}, 3*time.Minute, time.Second)
		for k := range d.was("firing") {
			require.True(t, may[k] || k.name == metrics.Watchdog, "people were told of %s, and nothing of it happened", k)
		}
	})
	for _, n := range d.Nodes() {
		if n.Up() {
			t.Logf("%s used %.1f CPU-s", n.Facts.Name, n.CPU().Seconds())
		}
	}
}
