//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/test/client"
	"spore/test/faults"
	"spore/test/powercut"
)

// The fault matrix: docs/faults.md. Its rows are in the files faults_*_test.go, by what the machine does; package
// faults draws some of them, or runs all.

const (
	// drawnCPU is what the drawn rows of a run may cost, besides the machine that the rows share: two or three boots.
	drawnCPU = 80 * time.Second
	// aBoot is what a boot of edge-01 costs under emulation, until its roles run; anEarlyEnd what one costs that ends
	// in stage1.
	aBoot, anEarlyEnd = 28 * time.Second, 9 * time.Second
	// aTouch is what a machine costs that runs, while something happens to it and it is asked again; aPush with two
	// pushes, by a program of this host.
	aTouch, aPush = 4 * time.Second, 15 * time.Second
	// keptTopic has a retained message that was acknowledged in the first boot.
	keptTopic, keptValue = "sensors/first", "1"
)

// faultRow is a row of the matrix.
type faultRow = faults.Row[*faultLab]

// faultRows are all rows.
func faultRows() []faultRow {
	return slices.Concat(firstBootRows(), installationRows(), deliveryRows(), startRows(), servingRows(), pushRows(), updateRows(), trialRows(), renewalRows(), orderRows())
}

func TestTheFaultMatrix(t *testing.T) {
	inTurn(t)
	faults.Matrix[*faultLab]{
		Rows: faultRows(), Budget: drawnCPU,
		Shared: map[string]time.Duration{running: aBoot + 5*time.Second, stagedDisk: aBoot + 10*time.Second},
		Lab:    newFaultLab,
		Done:   func(t *testing.T, l *faultLab, shares string) { l.done(t, shares) },
		Keep:   func(text string) { writeResult("faults.md", text) },
		Accel:  suite.accel.Name,
	}.Run(t)
}

// faultLab is what the rows share: a machine that was started once.
type faultLab struct {
	broker
	outer *testing.T
	dir   string
	// installed is the disk after a first boot, log what was written to it from the image on; both stay as they are.
	installed string
	log       *powercut.Log
	machineID string

	mu      sync.Mutex
	running *subject
	ran     map[string]bool
	staged  *stagedSystem
}

func newFaultLab(t *testing.T) *faultLab {
	t.Helper()
	l := &faultLab{broker: newBroker(t), outer: t, dir: t.TempDir(), ran: map[string]bool{}}
	l.log, l.machineID = recordFirstBoot(t, l.broker, l.dir, smallDisk)
	l.installed = filepath.Join(l.dir, "first-boot.img")
	t.Logf("%d writes in the first boot", l.log.Writes())
	return l
}

// done turns off the machine that the rows of a name shared.
func (l *faultLab) done(t *testing.T, shares string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if shares == running && l.running != nil {
		l.running.guest.t = t
		l.running.off()
		l.running = nil
	}
}

// subject is a machine of a row, with its operator.
type subject struct {
	*guest
	lab *faultLab
	// began is the power-on, or the fault.
	began time.Time
	// api is the address of the node's API, pki the operator's folder.
	api, pki string
}

// machine is edge-01 on a disk, with its bundle in the firmware.
func (l *faultLab) machine(t *testing.T, name string, disk vm.Disk) vm.Config {
	t.Helper()
	c := edge(name, disk)
	c.SMBIOS = l.bundle(t, "edge-01")
	c.NICs[0].Forwards = append(c.NICs[0].Forwards, vm.Forward{Protocol: "tcp", Guest: apiPort})
	return c
}

// start starts a machine of a row.
func (l *faultLab) start(t *testing.T, c vm.Config) *subject {
	t.Helper()
	g := boot(t, c)
	s := &subject{guest: g, lab: l, began: time.Now(), pki: filepath.Join(t.TempDir(), "keys.pki")}
	var err error
	s.api, err = g.Address("tcp", apiPort)
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(s.pki, os.DirFS(suite.dir)))
	return s
}

// fresh is a disk over the installed one.
func (l *faultLab) fresh(t *testing.T) vm.Disk { return l.over(t, l.installed) }

// over is a disk over another of the rows.
func (l *faultLab) over(t *testing.T, base string) vm.Disk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.qcow2")
	require.NoError(t, vm.Overlay(context.Background(), base, path, smallDisk))
	return bootDisk(path)
}

// copied is a copy of the installed disk, whose bytes a row changes.
func (l *faultLab) copied(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, vm.Copy(l.installed, path, 0))
	return path
}

// whole waits until the machine runs all its roles as the node that it was, on its state, and serves: its DNS server
// answers, its broker takes a message and gives it back. kept says that it has to have the retained message of the
// first boot.
func (s *subject) whole(kept bool) faults.Outcome {
	s.t.Helper()
	st := s.guest.running()
	took := time.Since(s.began)
	require.Equal(s.t, "edge-01", st.Node)
	require.Equal(s.t, s.lab.machineID, st.MachineID)
	require.Equal(s.t, []string{"dns-server", "mqtt-broker"}, st.Roles, st.Raw)
	require.Empty(s.t, st.Held, st.Raw)
	require.Equal(s.t, "partition", st.State.Kind, st.Raw)
	return faults.Outcome{After: faults.Whole, Took: took, Lost: s.serves(kept)}
}

// serves asks the DNS server and the broker, and says what is lost.
func (s *subject) serves(kept bool) (lost string) {
	s.t.Helper()
	require.Equal(s.t, "NOERROR", s.name("edge-01"))
	op := s.lab.mustDial(s.t, s.guest, edgeIP, "edge-01", "operator")
	defer op.Close()
	require.NoError(s.t, op.Subscribe("sensors/#"))
	topic := fmt.Sprintf("sensors/probe-%d", time.Now().UnixNano())
	require.NoError(s.t, op.Publish(topic, "2", false))
	_, err := op.Await(topic, time.Minute)
	require.NoError(s.t, err)
	if !kept {
		return ""
	}
	if got, err := op.Await(keptTopic, 20*time.Second); err != nil || got != (client.Message{Payload: keptValue, Retained: true}) {
		return fmt.Sprintf("the retained message of the first boot (there is %q, %v)", got.Payload, err)
	}
	return ""
}

// name asks the machine's DNS server for a name of the cluster, and gives the code of the answer.
func (s *subject) name(name string) string {
	s.t.Helper()
	addr, err := s.Address("udp", edgeIP+":53")
	require.NoError(s.t, err)
	a, err := client.Ask("udp", addr, name+"."+suite.cluster.Domain, "A")
	require.NoError(s.t, err)
	return a.Code
}

// end turns the machine off and hands on what was seen.
func (s *subject) end(o faults.Outcome) faults.Outcome {
	s.t.Helper()
	s.off()
	return o
}

// stops waits for a machine that ends before it ran, which is a reset here.
func (s *subject) stops(line string) faults.Outcome {
	s.t.Helper()
	s.awaitLine(line)
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	require.NoError(s.t, s.Wait(ctx), "it resets the machine by itself, which ends QEMU here")
	o := faults.Outcome{After: faults.Stops, Took: time.Since(s.began)}
	for _, st := range s.Console.Statuses(0) {
		require.NotEqual(s.t, "running", st.System, st.Raw)
	}
	s.release()
	return o
}

// push runs spore push, as the operator of this machine, and returns what it printed.
func (s *subject) push(ctx context.Context, configs, api string, more ...string) (string, error) {
	s.t.Helper()
	began := time.Now()
	out, err := s.pushCommand(ctx, configs, api, more...).CombinedOutput()
	s.t.Logf("push took %.0f s (%v):\n%s", time.Since(began).Seconds(), err, out)
	return string(out), err
}

func (s *subject) pushCommand(ctx context.Context, configs, api string, more ...string) *exec.Cmd {
	s.t.Helper()
	args := append([]string{"push", configs, "--image", suite.image, "--pki", s.pki, "--node", "edge-01", "--address", "edge-01=" + api}, more...)
	if slices.Contains(more, "--reboot") {
		args = append(args, "--without", "mqtt-01,dns-01") // They share its roles, and are in no network of this test.
	}
	return exec.CommandContext(ctx, flashTool(s.t), args...)
}

// withName is a configuration that has one more name, by which one sees that it is in effect.
func withName(t *testing.T, name string, more ...[3]string) string {
	t.Helper()
	return editedConfigs(t, append([][3]string{{"services/dns.yaml", "  - name: mqtt\n", "  - name: " + name + "\n    addresses: [10.77.0.98]\n  - name: mqtt\n"}}, more...)...)
}

// line is the operator's line to a node, which breaks: the first limit bytes that the operator sends go through,
// then broken is called once, and nothing more goes either way. When hold is set the connection stays open, as with
// a cable that is pulled out.
func line(t *testing.T, to string, limit int64, hold bool, broken func()) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	var once sync.Once
	var mu sync.Mutex
	left := limit
	t.Cleanup(func() {
		close(done)
		l.Close()
		mu.Lock()
		defer mu.Unlock()
		require.Zero(t, left, "the operator sent less than after which the line was to break")
	})
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				node, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer node.Close()
				go func() { _, _ = io.Copy(from, node); from.Close() }()
				buf := make([]byte, 16<<10)
				for {
					n, err := from.Read(buf)
					if err != nil {
						return
					}
					mu.Lock()
					n = int(min(int64(n), left))
					left -= int64(n)
					over := left == 0
					mu.Unlock()
					if _, err := node.Write(buf[:n]); err != nil {
						return
					}
					if over {
						once.Do(broken)
						if hold {
							<-done
						}
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// ownTest is a row of a test of this package that each run of `make test` has anyway; all rows of one test share its
// run.
func ownTest(doing faults.Doing, happens string, want faults.State, name string, test func(t *testing.T)) faultRow {
	return faultRow{Doing: doing, Happens: happens, Want: want, Own: name, Shares: name, Run: func(t *testing.T, l *faultLab) faults.Outcome {
		l.mu.Lock()
		first := !l.ran[name]
		l.ran[name] = true
		l.mu.Unlock()
		if first {
			test(t)
		}
		return faults.Outcome{After: want, Took: lastBoot(t.Name()), Note: strings.TrimPrefix(name, "Test")}
	}}
}

// lastBoot is how long the last machine of a test took from the power-on until its roles ran; 0 where none did.
func lastBoot(test string) time.Duration {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	for _, b := range slices.Backward(suite.boots) {
		if strings.HasPrefix(b.name, test) {
			return b.phases["running"].Wall
		}
	}
	return 0
}

// unit is a row of a test beside the code.
func unit(doing faults.Doing, happens string, want faults.State, pkg, pattern string) faultRow {
	return faults.Test[*faultLab](doing, happens, want, pkg, pattern)
}
