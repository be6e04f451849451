//go:build e2e

package e2e

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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/services/ceph/cephx"
	"spore/wire/nodeapi"
)

const (
	// keeperMemory is the machine's, in MiB: a monitor, a manager, a metadata server and two OSDs at their least.
	keeperMemory = 3072
	osdDisk      = 8 << 30
	// cephStep bounds one thing that Ceph does in emulation: a tenth of it on a quiet host.
	cephStep = 20 * time.Minute
	// asPeople is how a person on the machine speaks to Ceph.
	asPeople = "-c /run/ceph-bootstrap/ceph.conf"
)

// keeperEnd is where storage-01 has the node's API.
var keeperEnd = fmt.Sprintf("%s:%d", keeperIP, nodeapi.Port)

// The disks of storage-01 beside the one that the shipped file names: one is encrypted, and one holds something else.
const keeperDisks = `disks:
  - {use: osd, selector: {serial: OSD-STORAGE-01}}
  - {use: osd, selector: {serial: OSD-B}, encrypt: true}
  - {use: osd, selector: {serial: FOREIGN}}
`

// storage is storage-01 with a monitor, a manager, a metadata server and the disks of OSDs, whose half of the data has
// its copy on the worker. What it does runs beside what Kubernetes does: t and the console are its own.
type storage struct {
	t *testing.T
	l *lab
	g *guest
	// foreign is the disk that holds something else, which has to be what it was before.
	foreign, before string
	// hash is that of the object, last the number of the last write that was acknowledged.
	hash string
	last int
	// osds are the numbers of the OSDs by their disks.
	osds string
	// folder is that of a volume of CephFS, shared the hash of a file in it.
	folder, shared string
	// ended is closed when all steps before the power cut have ended; whole says that those passed that others stand on.
	ended chan struct{}
	whole bool
	// hasProcessors lets the steps go on that wait for idle processors; it may be called again.
	hasProcessors func()
	idle          chan struct{}
}

// osds prints them.
const osds = "cat /run/ceph-osd/1/osd.env /run/ceph-osd/2/osd.env"

// newStorage makes the disks of storage-01.
func (l *lab) newStorage() *storage {
	l.t.Helper()
	s := &storage{t: l.t, l: l, foreign: filepath.Join(l.disks, "foreign.img"), ended: make(chan struct{})}
	s.idle = make(chan struct{})
	s.hasProcessors = sync.OnceFunc(func() { close(s.idle) })
	require.NoError(l.t, os.WriteFile(s.foreign, nil, 0o600))
	require.NoError(l.t, os.Truncate(s.foreign, 2<<30))
	run(l.t, "mke2fs", "-q", "-t", "ext4", "-L", "precious", s.foreign)
	s.before = hashFile(l.t, s.foreign)
	// Each is behind a controller whose driver nothing else needs.
	a, b := l.osdDisk("OSD-STORAGE-01"), l.osdDisk("OSD-B")
	a.Bus, b.Bus = "sata", "nvme"
	l.keeperDisks = []vm.Disk{l.loggedDisk("KEEPER"), a, b}
	return s
}

// boot starts storage-01, beside the two machines that may run at a time: it mostly waits for them. Its disks are files
// whose bytes can be looked at.
func (s *storage) boot() {
	s.l.t.Helper()
	machine := s.l.smbios(keeperName)
	machine.KernelArguments = []string{"spore.console"}
	s.g = start(s.l.t, vm.Config{
		Name: keeperName, Memory: keeperMemory, SMBIOS: machine,
		Disks: append(slices.Clone(s.l.keeperDisks), vm.Disk{Path: s.foreign, Serial: "FOREIGN"}),
		NICs:  []vm.NIC{{MAC: keeperMAC, Links: []vm.Link{s.l.keeperLink}}},
	}, func() {})
}

// opens waits for the shell on the console.
func (s *storage) opens() {
	s.t.Helper()
	s.g.loggedIn()
	// Each ceph is a Python that compiles its modules; emulated, that is most of what it does.
	require.NoError(s.t, s.g.Type("export PYTHONPYCACHEPREFIX=/run/console-python\r"))
}

// beside runs what Ceph does before the power cut, beside the steps of Kubernetes: once it is healthy, when the
// processors have nothing else to do.
func (s *storage) beside(outer *testing.T) {
	go func() {
		defer close(s.ended)
		s.whole = true
		for _, step := range []struct {
			name   string
			run    func(t *testing.T)
			needed bool
		}{
			{"storage-01 becomes healthy on empty disks, and the disk of somebody else is refused", s.becomesHealthy, true},
			{"an object of Ceph comes back as it was", s.keepsAnObject, true},
			{"an image of Ceph is made", s.makesAnImage, false},
			{"a user of Kubernetes mounts its volume of the file system, and no other folder", s.sharesFiles, true},
			{"one disk holds nothing that can be read without the key", s.encrypts, false},
		} {
			if passed := outer.Run(step.name, s.step(step.run)); !passed && step.needed {
				s.whole = false
				return
			}
			<-s.idle
		}
	}()
}

// step is a step of the test that is about storage-01.
func (s *storage) step(run func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		defer s.within(t)()
		defer func() {
			if t.Failed() {
				t.Log(s.sh("ls -lL /dev/mapper /dev/vd* /dev/sd* /dev/nvme*; journalctl -q -b --no-pager -u ceph-disks -u 'ceph-osd-disk@*' | cut -c1-300 | tail -n 80"))
			}
		}()
		run(t)
	}
}

// within has what is asked of storage-01 belong to a step, until end.
func (s *storage) within(step *testing.T) (end func()) {
	outer := s.t
	s.t, s.g.t = step, step
	return func() { s.t, s.g.t = outer, outer }
}

// didAll waits until the steps beside those of Kubernetes have ended.
func (s *storage) didAll(t *testing.T) {
	s.hasProcessors()
	<-s.ended
	require.True(t, s.whole, "the rest stands on what failed")
}

// sh runs a command on the console.
func (s *storage) sh(command string) string {
	s.t.Helper()
	return strings.Join(s.g.shell(command), "\n")
}

// dataDisk is an entry of the status line.
type dataDisk struct {
	Number                  int
	Serial, Device, Problem string
	OSD                     *int
}

// watcher asks for the state of Ceph until all is well, and prints "well", or the last state after four minutes. It is
// one program that asks often: each start of ceph(8) costs an emulated machine five seconds of its processor.
const watcher = `python3 -c 'import json,rados,time; ` +
	`c=rados.Rados(conffile="/run/ceph-bootstrap/ceph.conf",conf={"rados_mon_op_timeout":"60"}); c.connect(timeout=60); ` +
	`ask=lambda: json.loads(c.mon_command(json.dumps({"prefix":"status","format":"json"}),b"")[1]); ` +
	// Without a manager all is well, too: nobody has looked. The network of an emulated machine is slow while the host
	// has other work.
	`well=lambda s: all(c.startswith("OSD_SLOW_PING_TIME") for c in s["health"]["checks"]) and s["osdmap"]["num_osds"]==3==s["osdmap"]["num_up_osds"] and s["mgrmap"]["available"]; ` +
	`print(next(("well" for n in range(120) if well(ask()) or time.sleep(2)), None) or json.dumps(ask()))'`

// healthy waits until the OSDs are up and Ceph says that all is well, but for how long the emulated network takes.
func (s *storage) healthy() {
	s.t.Helper()
	end := time.Now().Add(cephStep)
	for {
		said := s.sh(watcher) // Before there is a quorum it ends with an error.
		if said == "well" {
			return
		}
		if time.Now().After(end) {
			s.t.Log(s.sh(what))
			require.Fail(s.t, "not healthy", "after %s: %s", cephStep, said)
		}
		time.Sleep(5 * time.Second)
	}
}

// what prints what Ceph's daemons are at, and what they said.
const what = `for a in $(find /run -name '*.asok'); do echo "$a"; for c in status ops; do ceph --admin-daemon "$a" "$c" | head -n 100; done; done; journalctl -q -b --no-pager -u 'ceph*' | cut -c1-300 | tail -n 100`

// dataDisks are those of a status line.
func dataDisks(t *testing.T, l vm.Status) []dataDisk {
	t.Helper()
	var got struct{ Disks []dataDisk }
	require.NoError(t, json.Unmarshal([]byte(l.Raw), &got))
	return got.Disks
}

func (s *storage) becomesHealthy(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), cephStep)
	defer cancel()
	line, _, mark, err := s.g.Console.AwaitStatus(ctx, s.g.mark, "both OSDs run", func(l vm.Status) bool {
		disks := dataDisks(t, l)
		return l.Services["ceph-osd-disk@1.service"] == "active" && l.Services["ceph-osd-disk@2.service"] == "active" && l.System == "degraded" &&
			l.Times["running"] > 0 && len(disks) == 3 && disks[0].OSD != nil && disks[1].OSD != nil
	})
	require.NoError(t, err)
	s.g.mark = mark
	require.Equal(t, keeperName, line.Node, line.Raw)
	require.Equal(t, "mac", line.Matched.By, line.Raw)
	require.Equal(t, []string{"ceph-mon", "ceph-osd"}, line.Roles)
	require.Equal(t, []string{"ceph-disks.service"}, line.Failed, line.Raw)
	require.Empty(t, line.Held, line.Raw)
	disks := dataDisks(t, line)
	for i, serial := range []string{"OSD-STORAGE-01", "OSD-B", "FOREIGN"} {
		require.Equal(t, serial, disks[i].Serial)
		require.Equal(t, i+1, disks[i].Number)
	}
	require.Empty(t, disks[0].Problem+disks[1].Problem)
	require.Contains(t, disks[1].Device, "/dev/mapper/")
	require.Contains(t, disks[2].Problem, "(serial FOREIGN) is not empty: it holds an ext2, ext3 or ext4 file system; nothing was changed. To delete everything on it and use it: spore reset storage-01 --disk FOREIGN")
	require.Nil(t, disks[2].OSD)

	s.opens()
	s.healthy()
	s.osds = s.sh(osds)
	text := s.rest(s.g.CPU().Seconds(), line.Times["running"])
	t.Log(text)
	writeResult("ceph.md", text)
}

// rest says what it cost to become healthy, and what the programs hold then.
func (s *storage) rest(cpu, running float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nstorage-01 with a monitor, a manager, a metadata server and two OSDs (%s): healthy with the third OSD on empty disks after %.0f CPU seconds, running after %.0f s of its clock\n\n| program | RSS in MB |\n|---|---|\n", suite.accel.Name, cpu, running)
	for _, unit := range []string{"ceph-mon", "ceph-mgr", "ceph-mds", "ceph-osd-disk@1", "ceph-osd-disk@2"} {
		kib, err := strconv.Atoi(s.sh("sed -n 's/^VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$(systemctl show -P MainPID " + unit + ")/status"))
		require.NoError(s.t, err)
		fmt.Fprintf(&b, "| %s | %d |\n", unit, kib*1024/1000/1000)
	}
	available, err := strconv.Atoi(s.sh("sed -n 's/^MemAvailable:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/meminfo"))
	require.NoError(s.t, err)
	fmt.Fprintf(&b, "\nMemory available: %d MiB of %d\n", available>>10, keeperMemory)
	return b.String()
}

func (s *storage) keepsAnObject(t *testing.T) {
	s.hash = s.sh("head -c 16M /dev/urandom > /var/tmp/object && sha256sum < /var/tmp/object")
	require.Regexp(t, `^[0-9a-f]{64} `, s.hash)
	require.Equal(t, "0", s.sh("rados "+asPeople+" -p rbd put object /var/tmp/object; echo $?"))
	require.Equal(t, s.hash, s.object())
}

// object is the hash of the object as Ceph gives it.
func (s *storage) object() string {
	s.t.Helper()
	return s.sh("rados " + asPeople + " -p rbd get object /var/tmp/got && sha256sum < /var/tmp/got; rm /var/tmp/got")
}

func (s *storage) makesAnImage(t *testing.T) {
	require.Equal(t, "0", s.sh("rbd "+asPeople+" create rbd/volume --size 64M; echo $?"))
	require.Equal(t, "volume", s.image())
	require.Contains(t, s.sh("rbd "+asPeople+" info rbd/volume"), "size 64 MiB in 16 objects")
}

// image is the name of the image as Ceph lists it, beside those of pods.
func (s *storage) image() string {
	s.t.Helper()
	return s.sh("rbd " + asPeople + " ls rbd | grep -x volume")
}

// sharedAt is where a volume of CephFS is mounted.
const sharedAt = "/run/shared"

// sharer is the user of Ceph that the master is, who makes volumes of the file system for pods, and mounts them.
const sharer = cephx.CephFS + "." + masterName

// keyring is where its key is kept, which outlives the power cut as the user does.
const keyring = "/var/tmp/kubernetes.keyring"

// shares has that user make a volume in the file system, as ceph(8) would with "fs subvolumegroup create"
// and "fs subvolume create", and prints what came of each and then its folder. It is one program: each start of ceph(8)
// is dear.
const shares = `python3 -c 'import json,os,rados; ` +
	`admin=rados.Rados(conffile="/run/ceph-bootstrap/ceph.conf"); admin.connect(timeout=60); ` +
	`key=admin.mon_command(json.dumps({"prefix":"auth get","entity":"` + sharer + `"}),b""); ` +
	`f=open("` + keyring + `","wb"); f.write(key[1]); f.flush(); os.fsync(f.fileno()); ` +
	`user=rados.Rados(name="` + sharer + `",conffile="",conf={"keyring":"` + keyring + `"}); user.connect(timeout=60); ` +
	`ask=lambda who,what,**more: who.mgr_command(json.dumps({"prefix":what,"vol_name":"files","group_name":"kubernetes",**more}),b""); ` +
	`print(key[0], ask(user,"fs subvolumegroup create")[0], ask(user,"fs subvolume create",sub_name="shared",size=%d)[0]); ` +
	`print(ask(admin,"fs subvolume getpath",sub_name="shared")[1].decode())'; sync /var/tmp`

// mount mounts a folder of the file system by the kernel as the user of Kubernetes, with the options of
// payloads/spore-rbd, and returns what is said, and the exit status.
func (s *storage) mount(folder string, more ...string) string {
	return s.sh("mkdir -p " + sharedAt + "; mount -i -t ceph -o " + strings.Join(append(more, "mon_addr="+keeperIP+":3300,ms_mode=secure,recover_session=clean,secret"), ",") + "=$(sed -n 's/.*key = //p' " + keyring + ") " +
		strings.TrimPrefix(sharer, "client.") + "@$(sed -n 's/^fsid *= *//p' /run/ceph-bootstrap/ceph.conf).files=" + folder + " " + sharedAt + "; echo $?")
}

// mountWhenServed mounts the folder as soon as there is a server for it, as Kubernetes does. After a loss of power the
// server takes over from what it was before and waits for the clients of then; the kernel does not wait with it.
func (s *storage) mountWhenServed() {
	s.t.Helper()
	end := time.Now().Add(cephStep)
	for {
		said := s.mount(s.folder)
		if said == "0" {
			return
		}
		if !strings.Contains(said, "No route to host") || time.Now().After(end) {
			servers := s.sh("ceph " + asPeople + " mds stat")
			require.Fail(s.t, "not mounted", "%s\n%s\n%s", said, servers, s.sh("dmesg | tail -n 20"))
		}
		time.Sleep(2 * time.Second)
	}
}

// quota is that of the volume in bytes.
const quota = 64 << 20

func (s *storage) sharesFiles(t *testing.T) {
	made, folder, _ := strings.Cut(s.sh(fmt.Sprintf(shares, quota)), "\n")
	require.Equal(t, "0 0 0", made, folder)
	s.folder = folder
	require.Regexp(t, `^/volumes/kubernetes/shared/[0-9a-f-]{36}$`, s.folder)

	for _, folder := range []string{"/", "/volumes"} {
		said := s.mount(folder, "mount_timeout=15") // The kernel tries again until its time is over.
		require.NotEqual(t, "0", said[strings.LastIndex(said, "\n")+1:], "%s: %s", folder, said)
	}
	require.Equal(t, "0", s.mount(s.folder), "%s", s.sh("dmesg | tail -n 20"))
	require.Equal(t, strconv.Itoa(quota>>20), s.sh("df --block-size=1M --output=size "+sharedAt+" | tail -n 1 | tr -d ' '"))
	s.shared = s.sh("cd " + sharedAt + " && head -c 16M /dev/urandom > file && sync file . && sha256sum file")
	require.Regexp(t, `^[0-9a-f]{64} `, s.shared)
	require.Contains(t, s.sh(fmt.Sprintf("truncate -s %d %s/more", 2*quota, sharedAt)), "Disk quota exceeded")
	require.Equal(t, "0", s.sh("cd / && umount "+sharedAt+"; echo $?"))
	require.Equal(t, "0", s.mount(s.folder))
	require.Equal(t, s.shared, s.sh("cd "+sharedAt+" && sha256sum file"), "from Ceph, and not from the memory of the machine")
	require.Equal(t, "0", s.sh("cd "+sharedAt+" && echo before the cut > synced && sync synced . ; echo $?"))
}

// encrypts looks at the disks from outside.
func (s *storage) encrypts(t *testing.T) {
	for i, want := range map[int]string{1: "bluestore block device", 2: "LUKS\xba\xbe"} {
		part, err := vm.FindPartition(s.l.keeperDisks[i].Path, "spore-osd")
		require.NoError(t, err)
		f, err := os.Open(s.l.keeperDisks[i].Path)
		require.NoError(t, err)
		defer f.Close()
		b := make([]byte, len(want))
		_, err = f.ReadAt(b, part.Start)
		require.NoError(t, err)
		require.Equal(t, want, string(b), s.l.keeperDisks[i].Serial)
	}
}

// writer writes objects until the end, and says of each when it was acknowledged.
const writer = `python3 -c 'import rados,itertools; c=rados.Rados(conffile="/run/ceph-bootstrap/ceph.conf"); c.connect(); p=c.open_ioctx("rbd"); ` +
	`[(p.write_full("write-%d"%i, (b"%d "%i)*1000), print("acknowledged %d"%i, flush=True)) for i in itertools.count()]'`

// reader reads as many, and says how many are as they were written.
const reader = `python3 -c 'import rados; c=rados.Rados(conffile="/run/ceph-bootstrap/ceph.conf"); c.connect(); p=c.open_ioctx("rbd"); ` +
	`print(sum(p.read("write-%%d"%%i, 65536) == (b"%%d "%%i)*1000 for i in range(%d)))'`

// writes begins to write objects.
func (s *storage) writes() {
	s.t.Helper()
	require.NoError(s.t, s.g.Type(writer+"\r"))
}

// haveWritten waits until a hundred writes were acknowledged.
func (s *storage) haveWritten() {
	s.t.Helper()
	s.g.awaitLine(`^acknowledged 100$`)
}

// acknowledged reads on the console which write was acknowledged last.
func (s *storage) acknowledged() {
	for _, l := range s.g.Console.Lines(0) {
		if m := regexp.MustCompile(`^acknowledged (\d+)$`).FindStringSubmatch(l.Text); m != nil {
			s.last, _ = strconv.Atoi(m[1]) // The pattern is a number.
		}
	}
}

// hasWhatItAcknowledged looks at Ceph after a power cut of all machines that have its data.
func (s *storage) hasWhatItAcknowledged(t *testing.T) {
	s.opens()
	s.healthy()
	t.Logf("%d acknowledged writes; healthy again after %.0f CPU seconds", s.last+1, s.g.CPU().Seconds())
	require.Equal(t, strconv.Itoa(s.last+1), s.sh(fmt.Sprintf(reader, s.last+1)))
	require.Equal(t, s.hash, s.object())
	require.Equal(t, "volume", s.image())
	require.Equal(t, s.osds, s.sh(osds), "the OSDs are those that they were")
	s.mountWhenServed()
	require.Equal(t, s.shared+"\nbefore the cut", s.sh("cd "+sharedAt+" && sha256sum file && cat synced"))
}

// losesADisk takes the disk of an OSD out of the running machine, with its data, and has an operator find out and
// forget the OSD.
func (s *storage) losesADisk(t *testing.T) {
	id := s.sh("sed -n 's/^OSD_ID=//p' /run/ceph-osd/1/osd.env")
	require.Regexp(t, `^[0-2]$`, id)
	osd := "osd." + id
	_, errs, ok := s.ask("ceph osd-purge", id, "--confirm", osd)
	require.False(t, ok)
	require.Contains(t, errs, osd+" runs; what is lost for good does not")

	// BlueStore ends at the first write that fails; this one may have no client that writes.
	s.sh("umount " + sharedAt + "; echo 1 > /sys/block/sda/device/delete; systemctl kill --signal=KILL ceph-osd-disk@1")
	require.Eventually(t, func() bool {
		out, _, ok := s.ask("ceph status")
		return ok && regexp.MustCompile(`(?m)^ +`+regexp.QuoteMeta(osd)+` +down, in `).MatchString(out)
	}, cephStep, 20*time.Second)
	_, errs, ok = s.ask("ceph osd-purge", id, "--confirm", osd)
	require.False(t, ok)
	require.Contains(t, errs, osd+" may have the last copy of something")
	_, errs, ok = s.ask("ceph osd-purge", id, "--confirm", osd, "--force", "ceph-mon")
	require.True(t, ok, errs)
	require.Contains(t, errs, osd+" is forgotten")
	out, errs, ok := s.ask("ceph status")
	require.True(t, ok, errs)
	require.NotContains(t, out, osd+" ")
	require.Equal(t, s.before, hashFile(t, s.foreign), "the disk of somebody else is as it was")
	t.Logf("storage-01 at the end: %.0f CPU-s", s.g.CPU().Seconds())
}

// ask runs a command of spore that asks storage-01, through the gateway.
func (s *storage) ask(command string, args ...string) (out, errs string, ok bool) {
	s.t.Helper()
	at, err := s.l.master.Address("tcp", keeperEnd)
	require.NoError(s.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), cephStep)
	defer cancel()
	all := append(strings.Fields(command), filepath.Join(s.l.dir, "plant"), "--address", keeperName+"="+at, "--timeout", "30s")
	cmd := exec.CommandContext(ctx, flashTool(s.t), append(all, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	s.t.Logf("$ spore %s %s\n%s%s", command, strings.Join(args, " "), &stdout, &stderr)
	return stdout.String(), stderr.String(), err == nil
}
