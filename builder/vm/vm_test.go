package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestEmulationRunsTheProbe(t *testing.T) {
	ctx := within(t, time.Minute)
	a, err := emulation(ctx)
	require.NoError(t, err)
	require.NoError(t, probe(ctx, Accel{Name: "tcg", CPU: a.CPU}))
}

func TestAnAcceleratorThatDoesNotExistFailsTheProbe(t *testing.T) {
	require.ErrorContains(t, probe(within(t, time.Minute), Accel{Name: "xen-of-nobody", CPU: "max"}), "does not run a boot sector")
}

func TestTheProbeIsAssembledFromItsSource(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, "%s\nrun make deps", out)
	}
	run("as", "-o", filepath.Join(dir, "p.o"), "probe/probe.S")
	run("ld", "-e", "0x7c00", "-Ttext", "0x7c00", "--oformat", "binary", "-o", filepath.Join(dir, "p.bin"), filepath.Join(dir, "p.o"))
	got, err := os.ReadFile(filepath.Join(dir, "p.bin"))
	require.NoError(t, err)
	require.Equal(t, probeSector, got)
}

func TestQEMUVersions(t *testing.T) {
	for s, want := range map[string]version{
		"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)": {7, 2},
		"QEMU emulator version 8.1.0":                                 {8, 1},
		"QEMU emulator version 10.0.2":                                {10, 0},
	} {
		got, ok := qemuVersion(s)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	for _, s := range []string{"something else", "version 7", "version 99999999999999999999.1", ""} {
		_, ok := qemuVersion(s)
		require.False(t, ok, s)
	}
	require.True(t, version{7, 2}.before(8, 1))
	require.True(t, version{8, 0}.before(8, 1))
	require.False(t, version{8, 1}.before(8, 1))
	require.False(t, version{10, 0}.before(8, 1))
}

func TestUnderABIOSTheProcessorSaysWhatTheKernelIsNotTold(t *testing.T) {
	accel := Accel{Name: "tcg", CPU: "max", KernelArguments: []string{"no_timer_check", noCX16}}
	for firmware, want := range map[string]string{BIOS: "max,-cx16", UEFI: "max"} {
		args, err := Config{Name: "m", Dir: t.TempDir(), Accel: accel, Firmware: firmware}.commandLine(scratch(t.TempDir()), nil)
		require.NoError(t, err)
		require.Equal(t, want, args[slices.Index(args, "-cpu")+1])
		require.Equal(t, firmware == UEFI, strings.Contains(strings.Join(args, " "), escape(noCX16)))
	}
	require.Equal(t, "host", Accel{Name: "kvm", CPU: "host"}.withoutArguments().CPU)
}

func TestOnlyAWatchdogThatWasAskedForResetsAMachine(t *testing.T) {
	for _, watchdog := range []bool{true, false} {
		args, err := Config{Name: "m", Dir: t.TempDir(), Accel: Accel{Name: "tcg", CPU: "max"}, Watchdog: watchdog}.commandLine(scratch(t.TempDir()), nil)
		require.NoError(t, err)
		line := strings.Join(args, " ")
		require.Contains(t, line, "-global ICH9-LPC.noreboot=true", "the board's own watchdog")
		require.Equal(t, watchdog, strings.Contains(line, "-device i6300esb,id=watchdog -action watchdog=reset"))
	}
}

func TestFirmwareWithoutADiskSaysSo(t *testing.T) {
	t.Parallel()
	ctx := within(t, 2*time.Minute)
	accel, err := DetectAccel(ctx)
	require.NoError(t, err)
	dir := t.TempDir()
	m, err := Start(ctx, Config{
		Name: "empty", Dir: dir, Accel: accel, Memory: 256, Reboots: true,
		SMBIOS: SMBIOS{Serial: "SN,1", UUID: "6f1c2f0e-8a52-4a53-9d8c-1f6a0f3b7c11", Credentials: map[string][]byte{"a": []byte("b"), "long": bytes.Repeat([]byte("x"), 5000)}},
	})
	require.NoError(t, err)
	t.Cleanup(m.Kill)

	firmware := regexp.MustCompile(`No bootable option|UEFI Interactive Shell|Start PXE|EFI Shell`)
	line, _, err := m.Console.AwaitMatch(ctx, 0, firmware)
	require.NoError(t, err)
	require.Positive(t, line.CPU)
	require.True(t, m.Running())
	left, err := filepath.Glob(filepath.Join(m.dir, "credential-*"))
	require.NoError(t, err)
	require.Empty(t, left, "credentials stay in no file")

	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, _, err = m.Console.AwaitMatch(short, 0, regexp.MustCompile("never"))
	require.ErrorContains(t, err, "waiting for a line that matches never")

	goesOnAfterAReset(ctx, t, m, firmware)
	require.ErrorContains(t, m.Monitor("no-such-command", nil, nil), "CommandNotFound")
	require.NoError(t, m.Quit())
	require.False(t, m.Running())
	require.Positive(t, m.CPU())
	_, _, err = m.Console.AwaitMatch(ctx, 0, regexp.MustCompile("never"))
	require.ErrorContains(t, err, "the machine ended while waiting")
	log, err := os.ReadFile(filepath.Join(dir, "empty.console"))
	require.NoError(t, err)
	require.NotEmpty(t, log)
}

func TestForwardsOfAMachineHavePortsOfTheirOwn(t *testing.T) {
	var n NIC
	for range 300 { // of 14,000 ports or more: two that were alike would come nearly every time
		n.Forwards = append(n.Forwards, Forward{"tcp", "10.77.0.11:1"})
	}
	ports, err := freePorts([]NIC{n})
	require.NoError(t, err)
	slices.Sort(ports)
	require.Len(t, slices.Compact(ports), 300)
}

func TestForwardsAreFoundByTheirGuestEnd(t *testing.T) {
	m := &Machine{Ports: []int{1000, 2000, 3000}, Config: Config{Name: "m", NICs: []NIC{
		{Forwards: []Forward{{"tcp", "10.77.0.11:8883"}, {"udp", "10.77.0.11:53"}}}, {Forwards: []Forward{{"udp", "10.78.0.11:53"}}},
	}}}
	for guest, want := range map[string]string{"10.77.0.11:53": "127.0.0.1:2000", "10.78.0.11:53": "127.0.0.1:3000"} {
		got, err := m.Address("udp", guest)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := m.Address("tcp", "10.77.0.11:53")
	require.EqualError(t, err, "machine m: tcp 10.77.0.11:53 is not forwarded")

	ports, err := freePorts(m.Config.NICs)
	require.NoError(t, err)
	require.Len(t, ports, 3)
	_, err = freePorts([]NIC{{Forwards: []Forward{{"sctp", "10.77.0.11:53"}}}})
	require.ErrorContains(t, err, "want tcp or udp")
	args := strings.Join(m.Config.NICs[0].args(0, ports, false), " ")
	require.Contains(t, args, "-10.77.0.11:8883,hostfwd=udp:127.0.0.1:")
}

func TestCardsOfAHubShareOneNetwork(t *testing.T) {
	c := Config{Kernel: "k", NICs: []NIC{{MAC: "a", Hub: 1}, {MAC: "b", Hub: 1}, {MAC: "c"}}}
	args, err := c.commandLine(scratch(t.TempDir()), nil)
	require.NoError(t, err)
	require.Contains(t, strings.Join(args, " "), "-netdev user,id=net0 -netdev hubport,id=uplink0,hubid=1,netdev=net0 "+
		"-netdev hubport,id=port0,hubid=1 -device virtio-net-pci,id=nic0,netdev=port0,mac=a,romfile= "+
		"-netdev hubport,id=port1,hubid=1 -device virtio-net-pci,id=nic1,netdev=port1,mac=b,romfile= "+
		"-netdev user,id=net2 -device virtio-net-pci,id=nic2,netdev=net2,mac=c,romfile=")
}

func TestLinksJoinTheNetworksOfMachines(t *testing.T) {
	for want, nic := range map[string]NIC{
		"-netdev user,id=net0,net=10.77.0.0/24 " +
			"-netdev socket,id=link0-0,udp=127.0.0.1:2,localaddr=127.0.0.1:1 -netdev hubport,id=cable0-0,hubid=1,netdev=link0-0 " +
			"-netdev socket,id=link0-1,udp=127.0.0.1:4,localaddr=127.0.0.1:3 -netdev hubport,id=cable0-1,hubid=1,netdev=link0-1 " +
			"-netdev hubport,id=uplink0,hubid=1,netdev=net0 -netdev hubport,id=port0,hubid=1 -device virtio-net-pci,id=nic0,netdev=port0,mac=a,romfile=": {
			MAC: "a", Net: "10.77.0.0/24", Hub: 1, Links: []Link{{Own: 1, Peer: 2}, {Own: 3, Peer: 4}},
		},
		"-netdev socket,id=net0,udp=127.0.0.1:1,localaddr=127.0.0.1:2 -device virtio-net-pci,id=nic0,netdev=net0,mac=b,romfile=": {
			MAC: "b", Links: []Link{{Own: 2, Peer: 1}},
		},
		"-netdev user,id=net0,net=10.1.0.0/24,host=10.1.0.1,dns=10.1.0.9,tftp=/a,,b,bootfile=x.efi -device virtio-net-pci,id=nic0,netdev=net0,mac=c,romfile=,bootindex=2": {
			MAC: "c", Net: "10.1.0.0/24", Gateway: "10.1.0.1", Nameserver: "10.1.0.9", TFTP: "/a,b", Bootfile: "x.efi", BootIndex: 2,
		},
		"-netdev dgram,id=net0,local.type=unix,local.path=/proc/self/fd/3/d.0,remote.type=unix,remote.path=/proc/self/fd/3/switch -device virtio-net-pci,id=nic0,netdev=net0,mac=d,romfile=": {
			MAC: "d", Links: []Link{{Name: "d.0"}},
		},
		"-netdev tap,id=net0,ifname=tap7,script=no,downscript=no -device virtio-net-pci,id=nic0,netdev=net0,mac=e,romfile=": {
			MAC: "e", Tap: "tap7",
		},
		"-netdev user,id=net0 -netdev socket,id=link0-0,udp=127.0.0.1:6,localaddr=127.0.0.1:5 -netdev hubport,id=cable0-0,hubid=2,netdev=link0-0 " +
			"-netdev hubport,id=uplink0,hubid=2,netdev=net0": {
			Hub: 2, Links: []Link{{Own: 5, Peer: 6}},
		},
	} {
		require.Equal(t, want, strings.Join(nic.args(0, nil, false), " "))
	}
}

func TestAStartThatFailsSaysWhatQEMUSaid(t *testing.T) {
	ctx := within(t, time.Minute)
	_, err := Start(ctx, Config{Name: "broken", Dir: t.TempDir(), Accel: Accel{Name: "tcg", CPU: "max"}, Disks: []Disk{{Path: "/nonexistent"}}})
	require.ErrorContains(t, err, "machine broken")
	require.ErrorContains(t, err, "/nonexistent")
}

func TestConsoleLines(t *testing.T) {
	c := newConsole()
	var raw bytes.Buffer
	in := "\x1b[2J\x1b[01;01HBdsDxe: loading\r\nspore stage1: x\r\n\x1b[0;1;31mred\x1b[0m\n" + statusPrefix + `"node":"a"}` + "\nno newline"
	c.read(strings.NewReader(in), &raw, func() (time.Duration, time.Duration) { return time.Second, time.Millisecond })
	var got []string
	for _, l := range c.Lines(0) {
		got = append(got, l.Text)
		require.Equal(t, time.Second, l.Wall)
	}
	require.Equal(t, []string{"BdsDxe: loading", "spore stage1: x", "red", `{"spore":1,"node":"a"}`, "no newline"}, got)
	require.Equal(t, in, raw.String())
	require.Empty(t, c.Lines(99))
	require.Len(t, c.Statuses(0), 1)
	l, ok := c.Find(1, regexp.MustCompile("^re"))
	require.True(t, ok)
	require.Equal(t, "red", l.Text)
}

func TestAwaitSeesLinesThatComeLater(t *testing.T) {
	c := newConsole()
	r, w := io.Pipe()
	go c.read(r, io.Discard, func() (time.Duration, time.Duration) { return 0, 0 })
	go func() {
		for _, s := range []string{"one\n", "two\n", "one\n"} {
			if _, err := io.WriteString(w, s); err != nil {
				return
			}
		}
	}()
	ctx := within(t, time.Minute)
	_, mark, err := c.AwaitMatch(ctx, 0, regexp.MustCompile("one"))
	require.NoError(t, err)
	require.Equal(t, 1, mark)
	_, mark, err = c.AwaitMatch(ctx, mark, regexp.MustCompile("one"))
	require.NoError(t, err)
	require.Equal(t, 3, mark)
	require.NoError(t, w.Close())
	_, _, err = c.AwaitMatch(ctx, mark, regexp.MustCompile("one"))
	require.ErrorContains(t, err, "ended")
}

func TestAQuestionHasNoLineEnd(t *testing.T) {
	c := newConsole()
	r, w := io.Pipe()
	go c.read(r, io.Discard, func() (time.Duration, time.Duration) { return 0, 0 })
	write := func(s string) {
		_, err := io.WriteString(w, s)
		require.NoError(t, err)
	}
	ctx := within(t, time.Minute)
	asked := make(chan error)
	go func() {
		mark, err := c.AwaitQuestion(ctx, 0, regexp.MustCompile("^passphrase: ?$"))
		if err == nil && mark != 1 {
			err = fmt.Errorf("mark is %d", mark)
		}
		asked <- err
	}()
	write("passphrase:\r\n\x1b[0mpass")
	write("phrase: ")
	require.NoError(t, <-asked)
	require.Contains(t, c.Tail(), "passphrase")
	write("{a status line}\r\n")
	mark, err := c.AwaitQuestion(ctx, 1, regexp.MustCompile("^passphrase: "))
	require.NoError(t, err, "others wrote behind it")
	require.Equal(t, 2, mark)
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = c.AwaitQuestion(short, 2, regexp.MustCompile("passphrase"))
	require.ErrorContains(t, err, "waiting for a question that matches passphrase")
	require.NoError(t, w.Close())
}

func TestWhoFollowsTheConsoleSeesQuestions(t *testing.T) {
	c := newConsole()
	r, w := io.Pipe()
	go c.read(r, io.Discard, func() (time.Duration, time.Duration) { return 0, 0 })
	out, seen := io.Pipe()
	ctx := within(t, time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- c.Follow(ctx, seen); seen.Close() }()
	steps := []struct{ in, out string }{
		{"one\r\npassphrase: ", "one\npassphrase:"},
		{"***", " ***"},
		{"\r\ntwo\r\n", "\ntwo\n"},
		{"three: ", "three:"},
		{"\x1b[2Kfour\n", " four\n"},
	}
	for _, s := range steps {
		_, err := io.WriteString(w, s.in)
		require.NoError(t, err)
		got := make([]byte, len(s.out))
		_, err = io.ReadFull(out, got)
		require.NoError(t, err)
		require.Equal(t, s.out, string(got))
	}
	require.NoError(t, w.Close())
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.NoError(t, <-ended)

	short, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, newConsole().Follow(short, io.Discard), context.Canceled)
}

func TestALineThatNeverEndsIsCut(t *testing.T) {
	c := newConsole()
	c.read(strings.NewReader(strings.Repeat("x", maxLine+5)+"\ny"), io.Discard, func() (time.Duration, time.Duration) { return 0, 0 })
	lines := c.Lines(0)
	require.Len(t, lines, 3)
	require.Len(t, lines[0].Text, maxLine)
	require.Equal(t, "xxxxx", lines[1].Text)
	require.Equal(t, "y", lines[2].Text)
}

func TestStatusLines(t *testing.T) {
	full := `[  12.3] spore-agent[99]: {"spore":1,"cluster":"lab","node":"edge-01","matched":{"by":"mac","value":"52:54:00:00:00:01","phase":1},"roles":["dns-server"],"held":[{"role":"mqtt-broker","reason":"secret x is missing"}],"failed":[],"state":{"kind":"tmpfs","device":"","warning":"w"},"system":"running","times":{"running":9.5},"cpu":31} `
	s, ok := ParseStatus(full)
	require.True(t, ok)
	require.Equal(t, "edge-01", s.Node)
	require.Equal(t, "mac", s.Matched.By)
	require.Equal(t, "tmpfs", s.State.Kind)
	require.Equal(t, 9.5, s.Times["running"])
	again, ok := ParseStatus(full + "[   93.557338] clocksource: what the kernel says at the same time")
	require.True(t, ok)
	require.Equal(t, s.Raw, again.Raw)
	require.True(t, json.Valid([]byte(s.Raw)), s.Raw)
	for _, bad := range []string{"", "spore", `{"spore":1,"node":[  3.1] usb 1-1: new device`, `{"spore":2,"node":"a"}`} {
		_, ok := ParseStatus(bad)
		require.False(t, ok, bad)
	}
}

func FuzzStatusLine(f *testing.F) {
	f.Add(`{"spore":1,"node":"a"}`)
	f.Fuzz(func(t *testing.T, s string) { ParseStatus(s) })
}

func TestProcessTimes(t *testing.T) {
	require.Equal(t, 1500*time.Millisecond, statCPU("12 (qemu (x) y) S 1 2 3 4 5 6 7 8 9 10 100 50 0 0 20"))
	require.Zero(t, statCPU("12 (x) S 1"))
	require.Zero(t, statCPU(""))
}

func TestCopyKeepsHolesAndGrows(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	f, err := os.Create(src)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("begin"), 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("end"), 8<<20)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, Copy(src, dst, 16<<20))
	want, err := os.ReadFile(src)
	require.NoError(t, err)
	got, err := os.ReadFile(dst)
	require.NoError(t, err)
	require.Len(t, got, 16<<20)
	require.Equal(t, want, got[:len(want)])
	require.Equal(t, make([]byte, len(got)-len(want)), got[len(want):])

	require.NoError(t, Flip(dst, 1))
	a, err := HashRange(src, 0, 8<<20)
	require.NoError(t, err)
	b, err := HashRange(dst, 0, 8<<20)
	require.NoError(t, err)
	require.NotEqual(t, a, b)
	require.NoError(t, Flip(dst, 1))
	b, err = HashRange(dst, 0, 8<<20)
	require.NoError(t, err)
	require.Equal(t, a, b)
	_, err = HashRange(dst, 0, 99<<20)
	require.ErrorContains(t, err, "ends")
	require.ErrorContains(t, Flip(dst, 99<<20), "flip byte")
}

func TestPartitionsAreThoseThatSgdiskMade(t *testing.T) {
	t.Parallel()
	img := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(img, nil, 0o600))
	require.NoError(t, os.Truncate(img, 16<<20))
	out, err := exec.Command("sgdisk", "-n", "1:2048:4095", "-c", "1:esp", "-n", "2:4096:8191", "-c", "2:spore-state",
		"-t", "2:4d21b016-b534-45c2-a9fb-5c16e091fd2d", "-u", "2:6f1c2f0e-8a52-4a53-9d8c-1f6a0f3b7c11", img).CombinedOutput()
	require.NoError(t, err, "%s\nrun make deps", out)
	p, err := FindPartition(img, "spore-state")
	require.NoError(t, err)
	require.Equal(t, Partition{"spore-state", "4d21b016-b534-45c2-a9fb-5c16e091fd2d", "6f1c2f0e-8a52-4a53-9d8c-1f6a0f3b7c11", 4096 * 512, 4096 * 512}, p)
	_, err = FindPartition(img, "root-a")
	require.ErrorContains(t, err, "has 0 partitions named root-a")
	_, err = Partitions("/dev/null")
	require.ErrorContains(t, err, "partition table of /dev/null")
}

func TestKernelArgumentsReachTheStubInOneString(t *testing.T) {
	tcg := Accel{Name: "tcg", KernelArguments: []string{"no_timer_check"}}
	for name, tt := range map[string]struct {
		accel    Accel
		firmware string
		want     string
	}{
		"what the way to run code needs comes first": {tcg, "", "kernel-cmdline-extra=no_timer_check spore.console a=1,,2"},
		"a signed image has that itself":             {tcg, SecureBoot, "kernel-cmdline-extra=spore.console a=1,,2"},
		"KVM needs nothing":                          {Accel{Name: "kvm"}, "", "kernel-cmdline-extra=spore.console a=1,,2"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{Name: "m", Dir: t.TempDir(), Accel: tt.accel, Firmware: tt.firmware, SMBIOS: SMBIOS{KernelArguments: []string{"spore.console", "a=1,2"}}}
			args, err := c.commandLine(scratch(t.TempDir()), nil)
			require.NoError(t, err)
			require.Contains(t, args, "type=11,value=io.systemd.stub."+tt.want)
		})
	}
}

// QEMU itself says whether it has such disks: a name that it does not know ends it at once.
func TestDisksOfEveryKindAreMade(t *testing.T) {
	ctx := within(t, time.Minute)
	disks := []Disk{
		{Serial: "A,B"}, {USB: true, Serial: "STICK"}, {CDROM: true, BootIndex: 1},
		{Bus: "scsi", Serial: strings.Repeat("S", 36)}, {Bus: "scsi", WWN: "0x5000c500a1b2c3d4", Vendor: "SEAGATE", Model: "ST4000"},
		{Bus: "sata", Model: "Samsung_SSD_860", Serial: "S3Z"}, {Bus: "nvme", EUI: "0x0025385b71b0a1b2"},
		{Bus: "nvme", UUID: "3a5b8f0e-0000-4000-8000-00000000000b", Serial: "N1"},
		{Errors: []DiskError{{Write: true, At: 4096}, {At: 8192}}},
	}
	dir := t.TempDir()
	for i := range disks {
		disks[i].Path = filepath.Join(dir, fmt.Sprintf("disk,%d.img", i))
		require.NoError(t, os.WriteFile(disks[i].Path, make([]byte, 1<<20), 0o600))
	}
	m, err := Start(ctx, Config{Name: "disks", Dir: dir, Accel: Accel{Name: "tcg", CPU: "max"}, Memory: 256, Disks: disks, Display: true, Args: []string{"-S"}})
	require.NoError(t, err)
	defer m.Kill()
	var seen []struct {
		Inserted struct {
			ReadOnly bool `json:"ro"`
		} `json:"inserted"`
	}
	require.NoError(t, m.Monitor("query-block", nil, &seen))
	readOnly := 0
	for _, d := range seen {
		if d.Inserted.ReadOnly {
			readOnly++
		}
	}
	require.Equal(t, 2, readOnly, "the disc and the firmware")
	require.NotEqual(t, "1", largePages(t, m.PID()), "it is emulated")
	require.NoError(t, m.Quit())
}
