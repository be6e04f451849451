//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"spore/agent/ntp"
	"spore/builder/oci"
	"spore/builder/vm"
)

// Images with packages of Debian that image.yaml names: their maintainer scripts were replayed, and no program of them
// ran at build. Each is asked by a client of its own protocol, on a machine that was started from the image.

const (
	// requestLimit is how long one request may take; emulated machines are slow.
	requestLimit = 30 * time.Second
	// archiveDisk is the disk that holds an archive of a container image, behind that of the system.
	archiveDisk = "/dev/vdb"
)

// appliance is an image of the example edge with further packages, and its machine edge-01.
type appliance struct {
	*plant
	bundle []byte
}

// buildAppliance does what a user does: `spore init --example edge`, packages in image.yaml, `spore build`.
func buildAppliance(t *testing.T, packages ...string) appliance {
	t.Helper()
	return buildApplianceWith(t, nil, packages...)
}

// buildApplianceWith is buildAppliance with files and units of the user's own: those of a folder. May be nil.
func buildApplianceWith(t *testing.T, own fs.FS, packages ...string) appliance {
	t.Helper()
	config, out := filepath.Join(t.TempDir(), "edge"), t.TempDir()
	require.NoError(t, spore("init", config, "--example", "edge"))
	if own != nil {
		require.NoError(t, os.CopyFS(config, own))
	}
	file := filepath.Join(config, "image.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text = fmt.Appendf(text, "packages: [%s]\n", strings.Join(packages, ", "))
	require.NoError(t, os.WriteFile(file, text, 0o644))
	p, err := buildPlant(config, out, given(), "disk")
	require.NoError(t, err)
	return appliance{p, p.bundle(t, "edge-01")}
}

// machine is one with a disk of its own. Ports of this host lead to those TCP ports. Units of packages have the bounds
// of real machines, which are too short for an emulated one.
func (a appliance) machine(t *testing.T, name string, ports ...string) vm.Config {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk.qcow2")
	require.NoError(t, vm.Overlay(context.Background(), a.image, disk, diskSize))
	c := edge(name, bootDisk(disk))
	for _, p := range ports {
		c.NICs[0].Forwards = append(c.NICs[0].Forwards, vm.Forward{Protocol: "tcp", Guest: edgeIP + ":" + p})
	}
	c.SMBIOS = delivering("edge-01", a.bundle)
	c.SMBIOS.KernelArguments = []string{"systemd.default_timeout_start_sec=15min"}
	return c
}

// withConsole is the machine with a root shell on its console, where clients of what listens on the loopback alone run.
func withConsole(c vm.Config) vm.Config {
	c.SMBIOS.KernelArguments = append(c.SMBIOS.KernelArguments, "spore.console")
	return c
}

// Two packages of which one serves what it was built with, and one what each node makes of its own. The image has files
// and units of the user's own, too: a page, the settings of nginx for it, and a report that a timer has made.
func TestNginxAndOpenSSHServeAfterAPowerCut(t *testing.T) {
	inTurn(t)
	c := buildApplianceWith(t, os.DirFS("testdata/own"), "nginx", "openssh-server").machine(t, "nginx-ssh", "80", "22", "8080")
	g := boot(t, c)
	g.running()
	keys := g.hostKeys()
	t.Run("nginx answers", func(t *testing.T) { g.requirePage("80", "/", "Welcome to nginx!") })
	t.Run("a file of the user is served as a file of the user says", func(t *testing.T) {
		g.requirePage("8080", "/", "The plant's own page")
	})
	t.Run("a timer of the user starts its service, again and again, once the network is there", func(t *testing.T) {
		g.report(g.report(0))
	})
	g.off()

	c.Name += "-again"
	g = boot(t, c)
	t.Run("the keys of the host are the same after a power cut", func(t *testing.T) {
		require.Equal(t, keys, g.hostKeys())
	})
	t.Run("nginx answers after a power cut", func(t *testing.T) { g.requirePage("80", "/", "Welcome to nginx!") })
}

// All packages of which the documentation says that they serve, on two images that run at the same time.
func TestAppliances(t *testing.T) {
	noTime := serveTime(t)
	t.Run("servers", func(t *testing.T) {
		t.Parallel()
		servers{noTime: noTime}.test(t)
	})
	t.Run("data", func(t *testing.T) {
		t.Parallel()
		testData(t)
	})
}

// servers are services of the network on one machine.
type servers struct {
	// noTime says why this host does not answer the machine's questions for the time.
	noTime error
}

func (s servers) test(t *testing.T) {
	a := buildAppliance(t, "nginx", "openssh-server", "prometheus-node-exporter", "samba", "smbclient", "redis-server",
		"frr", "haproxy", "socat", "chrony")
	c := withConsole(a.machine(t, "servers", "80", "22", "9100"))
	g := boot(t, c)
	g.running()
	g.loggedIn()
	t.Run("nginx answers", func(t *testing.T) { g.requirePage("80", "/", "Welcome to nginx!") })
	t.Run("the exporter tells of the node", func(t *testing.T) { g.requirePage("9100", "/metrics", `nodename="edge-01"`) })
	t.Run("redis keeps what its client wrote", func(t *testing.T) {
		g.requireAnswer("redis-cli set appliance kept", `^OK$`)
		g.requireAnswer("redis-cli save", `^OK$`)
	})
	t.Run("samba lists its shares", func(t *testing.T) {
		g.requireAnswer("smbclient -N -L //"+edgeIP, `IPC\$ +IPC +IPC Service \(Samba 4`)
	})
	t.Run("frr gives the kernel a route", func(t *testing.T) {
		g.requireAnswer("vtysh -c 'show version'", `^FRRouting .*edge-01`)
		g.requireAnswer("vtysh -c 'configure terminal' -c 'ip route 192.0.2.0/24 blackhole' && echo taken", `^taken$`)
		g.requireAnswer("timeout 60 sh -c 'until ip route | grep blackhole; do sleep 1; done'", `^blackhole 192\.0\.2\.0/24`)
	})
	t.Run("haproxy takes Debian's configuration and says who it is", func(t *testing.T) {
		g.requireAnswer("haproxy -c -f /etc/haproxy/haproxy.cfg && echo taken", `^taken$`)
		g.requireAnswer("echo show info | socat - /run/haproxy/admin.sock", `^Name: HAProxy$`)
	})
	t.Run("chrony follows the time server of cluster.yaml", func(t *testing.T) {
		// Another program that serves the time on this host does as well.
		host := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), ntp.Port)
		if _, err := ntp.Ask(t.Context(), host, time.Now); err != nil {
			t.Skip(errors.Join(s.noTime, err))
		}
		g.requireAnswer("chronyc -n waitsync 60 0 0 2 >/dev/null; chronyc -n tracking",
			`^Reference ID +: [0-9A-F]+ \(`+strings.ReplaceAll(hostIP, ".", `\.`)+`\)$`)
		const kept = `timeout 120 sh -c 'until spore-agent status | grep "kept by"; do sleep 1; done'`
		g.requireAnswer(kept, `^clock +kept by chrony$`)
	})
	t.Run("openssh lets in whose key root has", func(t *testing.T) { g.requireLogin() })
	keys := g.hostKeys()
	t.Run("another machine with the image has other keys", func(t *testing.T) {
		other := start(t, a.machine(t, "servers-other", "22"), func() {})
		for kind, key := range other.hostKeys() {
			require.NotEqual(t, keys[kind], key, kind)
		}
		other.off()
	})
	g.off()

	c.Name += "-again"
	g = boot(t, c)
	g.running()
	g.loggedIn()
	t.Run("the keys of the host outlive a power cut", func(t *testing.T) { require.Equal(t, keys, g.hostKeys()) })
	t.Run("what redis saved outlives a power cut", func(t *testing.T) {
		g.requireAnswer("redis-cli get appliance", `^kept$`)
	})
	t.Run("all else runs again", func(t *testing.T) {
		g.requirePage("80", "/", "Welcome to nginx!")
		g.requireAnswer("systemctl is-active smbd nmbd frr haproxy chrony prometheus-node-exporter | sort -u", `^active$`)
	})
}

// testData has what keeps data: a database, a store of values, and containers.
func testData(t *testing.T) {
	a := buildAppliance(t, "postgresql", "valkey-server", "podman")
	c := withConsole(a.machine(t, "data", "8080"))
	archive, size := helloArchive(t)
	c.Disks = append(c.Disks, vm.Disk{Path: archive, Serial: "ARCHIVE"})
	g := boot(t, c)
	g.running()
	g.loggedIn()
	const psql = `runuser -u postgres -- psql -AtX -c "%s"`
	t.Run("postgresql takes a table", func(t *testing.T) {
		g.requireAnswer(fmt.Sprintf(psql, "create table kept (answer int); insert into kept values (42)"), `^INSERT 0 1$`)
	})
	t.Run("a user of postgresql comes in by a password", func(t *testing.T) {
		g.requireAnswer(fmt.Sprintf(psql, "create role app login password 'a pass word'"), `^CREATE ROLE$`)
		const app = `psql -AtX -h 127.0.0.1 -U app -d postgres -c 'select current_user'`
		g.requireAnswer("PGPASSWORD='a pass word' "+app, `^app$`)
		g.requireAnswer("PGPASSWORD=wrong "+app, `password authentication failed`)
	})
	t.Run("valkey keeps what its client wrote", func(t *testing.T) {
		g.requireAnswer("valkey-cli set appliance kept", `^OK$`)
		g.requireAnswer("valkey-cli save", `^OK$`)
	})
	t.Run("podman runs a container that serves", func(t *testing.T) {
		g.requireAnswer(fmt.Sprintf("head -c %d %s | podman load", size, archiveDisk), `Loaded image: `+helloImage)
		g.requireAnswer("podman run --detach --name hello --publish 8080:8080 "+helloImage, `^[0-9a-f]{64}$`)
		g.requirePage("8080", "/", "")
		g.shell("sync")
	})
	g.off()

	c.Name += "-again"
	g = boot(t, c)
	g.running()
	g.loggedIn()
	t.Run("the rows of postgresql outlive a power cut", func(t *testing.T) {
		g.requireAnswer(fmt.Sprintf(psql, "select answer from kept"), `^42$`)
	})
	t.Run("what valkey saved outlives a power cut", func(t *testing.T) {
		g.requireAnswer("valkey-cli get appliance", `^kept$`)
	})
	t.Run("podman starts its container again", func(t *testing.T) {
		g.requireAnswer("podman start hello", `^hello$`)
		g.requirePage("8080", "/", "")
	})
}

// helloArchive is a disk that begins with the archive of an image of test/hello, and the archive's size in bytes.
func helloArchive(t *testing.T) (disk string, size int) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "hello")
	run(t, "env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "../hello")
	data, err := os.ReadFile(program)
	require.NoError(t, err)
	var archive bytes.Buffer
	_, err = oci.Program(&archive, data, oci.ProgramOptions{Image: helloImage, Name: "hello"})
	require.NoError(t, err)
	disk = filepath.Join(t.TempDir(), "archive.img")
	require.NoError(t, os.WriteFile(disk, archive.Bytes(), 0o600))
	require.NoError(t, os.Truncate(disk, int64(archive.Len()+1<<20)&^(1<<20-1)))
	return disk, archive.Len()
}

// requireAnswer runs a client on the machine, one of whose lines has to match.
func (g *guest) requireAnswer(client, line string) {
	g.t.Helper()
	require.Regexp(g.t, "(?m)"+line, strings.Join(g.shell(client), "\n"), client)
}

// requirePage gets a page of the machine that contains a text.
func (g *guest) requirePage(port, path, text string) {
	g.t.Helper()
	g.within("a page with "+text, func() error {
		page, err := g.page(port, path)
		if err == nil && !strings.Contains(page, text) {
			err = fmt.Errorf("it says:\n%s", page)
		}
		return err
	})
}

// page asks once for a page.
func (g *guest) page(port, path string) (string, error) {
	addr, err := g.Address("tcp", edgeIP+":"+port)
	if err != nil {
		return "", err
	}
	client := http.Client{Timeout: requestLimit}
	r, err := client.Get("http://" + addr + path)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("it says %s:\n%s", r.Status, body)
	}
	return string(body), err
}

// report waits for a report of the user's own service whose number is above one, and returns the number.
func (g *guest) report(above int) (number int) {
	g.t.Helper()
	g.within(fmt.Sprintf("a report above %d", above), func() error {
		page, err := g.page("8080", "/report")
		if err != nil {
			return err
		}
		if _, err := fmt.Sscanf(page, "report %d of hall 3, line 7\n", &number); err != nil {
			return fmt.Errorf("it says %q: %w", page, err)
		}
		if number <= above {
			return fmt.Errorf("it is report %d", number)
		}
		return nil
	})
	return number
}

// within waits until a service answers as it should, from the start of its machine on if need be. It asks less and less
// often: an emulated machine has more to do for an answer than for all else.
func (g *guest) within(what string, ask func() error) {
	g.t.Helper()
	end := time.Now().Add(bootLimit)
	for pause := 500 * time.Millisecond; ; pause = min(2*pause, 4*time.Second) {
		err := ask()
		if err == nil {
			return
		}
		require.True(g.t, time.Now().Before(end), "%s: %v", what, err)
		time.Sleep(pause)
	}
}

// keyKinds are the algorithms of the keys that Debian's configuration of sshd names.
var keyKinds = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoRSASHA512}

// hostKeys are the keys by which sshd proves who the machine is, by algorithm.
func (g *guest) hostKeys() map[string]string {
	g.t.Helper()
	out := map[string]string{}
	for _, kind := range keyKinds {
		g.within("a handshake with a key of the kind "+kind, func() error {
			remember := func(_ string, _ net.Addr, key ssh.PublicKey) error {
				out[kind] = ssh.FingerprintSHA256(key)
				return errKnown
			}
			_, err := g.ssh(&ssh.ClientConfig{User: "nobody", HostKeyAlgorithms: []string{kind}, HostKeyCallback: remember})
			if errors.Is(err, errKnown) {
				return nil
			}
			return err
		})
	}
	return out
}

// errKnown ends a handshake once the key is known.
var errKnown = errors.New("the key is known now")

func (g *guest) ssh(c *ssh.ClientConfig) (*ssh.Client, error) {
	addr, err := g.Address("tcp", edgeIP+":22")
	if err != nil {
		return nil, err
	}
	c.Timeout = requestLimit
	return ssh.Dial("tcp", addr, c)
}

// requireLogin gives root a key, which comes in by it, while another one does not.
func (g *guest) requireLogin() {
	g.t.Helper()
	mine, stranger := newSigner(g.t), newSigner(g.t)
	// The root file system is read-only.
	key := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(mine.PublicKey())))
	g.requireAnswer("mount -t tmpfs -o mode=700 tmpfs /root && mkdir -m 700 /root/.ssh && "+
		"echo '"+key+"' > /root/.ssh/authorized_keys && echo given", `^given$`)
	config := func(s ssh.Signer) *ssh.ClientConfig {
		auth := []ssh.AuthMethod{ssh.PublicKeys(s)}
		return &ssh.ClientConfig{User: "root", Auth: auth, HostKeyCallback: ssh.InsecureIgnoreHostKey()}
	}
	_, err := g.ssh(config(stranger))
	require.ErrorContains(g.t, err, "unable to authenticate")
	g.within("a session of root", func() error {
		in, err := g.ssh(config(mine))
		if err != nil {
			return err
		}
		defer in.Close()
		session, err := in.NewSession()
		if err != nil {
			return err
		}
		said, err := session.CombinedOutput("cat /etc/hostname")
		if err == nil && string(said) != "edge-01\n" {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	})
}

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	s, err := ssh.NewSignerFromKey(key)
	require.NoError(t, err)
	return s
}
