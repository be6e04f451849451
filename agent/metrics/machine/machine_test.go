package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/agent/metrics/family"
)

// files are a machine's.
func files(t *testing.T, all map[string]string) *Machine {
	t.Helper()
	root := t.TempDir()
	for name, text := range all {
		at := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o600))
	}
	m := New(root)
	m.Statfs = func(path string, s *unix.Statfs_t) error {
		if path == "/broken" || strings.Contains(path, `\`) {
			return unix.EIO
		}
		*s = unix.Statfs_t{Bsize: 4096, Blocks: 100, Bfree: 50, Bavail: 40, Files: 10, Ffree: 5}
		return nil
	}
	m.Adjtimex = func(t *unix.Timex) (int, error) {
		*t = unix.Timex{Offset: -2_000_000, Maxerror: 500_000, Status: unix.STA_NANO, Freq: 65536}
		t.Time.Sec, t.Time.Usec = 100, 500_000_000
		return unix.TIME_OK, nil
	}
	return m
}

// measured are the values of a part, as NAME{labels}.
func measured(t *testing.T, m *Machine, part func(*Machine, *family.Sink) error) map[string]float64 {
	t.Helper()
	s := family.NewSink(Families())
	require.NoError(t, part(m, s))
	all, errs := s.Families()
	require.Empty(t, errs)
	out := map[string]float64{}
	for _, f := range all {
		for _, metric := range f.Metric {
			var labels []string
			for _, l := range metric.Label {
				labels = append(labels, l.GetValue())
			}
			value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + metric.GetUntyped().GetValue()
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return out
}

func TestTheClockIsToldInSeconds(t *testing.T) {
	m := files(t, nil)
	got := measured(t, m, (*Machine).clock)
	require.Equal(t, 1.0, got["node_timex_sync_status{}"])
	require.Equal(t, -0.002, got["node_timex_offset_seconds{}"])
	require.Equal(t, 0.5, got["node_timex_maxerror_seconds{}"])
	require.Equal(t, 100.5, got["node_time_seconds{}"])
	require.Equal(t, 1.000001, got["node_timex_frequency_adjustment_ratio{}"])
	m.Adjtimex = func(*unix.Timex) (int, error) { return unix.TIME_ERROR, nil }
	require.Equal(t, 0.0, measured(t, m, (*Machine).clock)["node_timex_sync_status{}"])
}

func TestSensorsAreToldInDegrees(t *testing.T) {
	m := files(t, map[string]string{
		"sys/class/hwmon/hwmon0/name": "coretemp\n", "sys/class/hwmon/hwmon0/temp1_input": "45500\n",
		"sys/class/hwmon/hwmon0/temp1_crit": "100000\n", "sys/class/hwmon/hwmon0/temp1_label": "Package \"0\"\n",
		"sys/class/hwmon/hwmon0/temp2_input": "hot\n", "sys/class/hwmon/hwmon0/temp9999_input": "1\n",
		"sys/class/hwmon/hwmon0/fan1_input":    "1200\n",
		"sys/class/thermal/thermal_zone0/type": "acpitz\n", "sys/class/thermal/thermal_zone0/temp": "27800\n",
		"sys/class/thermal/thermal_zone0/policy": "step_wise\n",
	})
	require.Equal(t, map[string]float64{
		"node_hwmon_chip_names{hwmon0,coretemp}": 1, "node_hwmon_temp_celsius{hwmon0,temp1}": 45.5,
		"node_hwmon_temp_crit_celsius{hwmon0,temp1}": 100, "node_hwmon_sensor_label{hwmon0,Package \"0\",temp1}": 1,
		"node_hwmon_fan_rpm{hwmon0,fan1}": 1200, "node_thermal_zone_temp{acpitz,0}": 27.8,
	}, measured(t, m, (*Machine).temperatures))
}

func TestTwoChipsOfADeviceAreToldApart(t *testing.T) {
	m := files(t, map[string]string{
		"sys/devices/pci/card/x":      "",
		"sys/class/hwmon/hwmon0/name": "a\n", "sys/class/hwmon/hwmon0/temp1_input": "1000\n",
		"sys/class/hwmon/hwmon1/name": "b\n", "sys/class/hwmon/hwmon1/temp1_input": "2000\n",
	})
	for _, chip := range []string{"hwmon0", "hwmon1"} {
		require.NoError(t, os.Symlink(m.at("sys/devices/pci/card"), m.at("sys/class/hwmon/"+chip+"/device")))
	}
	require.Equal(t, map[string]float64{
		"node_hwmon_chip_names{pci_card,a}": 1, "node_hwmon_temp_celsius{pci_card,temp1}": 1,
		"node_hwmon_chip_names{pci_card_hwmon1,b}": 1, "node_hwmon_temp_celsius{pci_card_hwmon1,temp1}": 2,
	}, measured(t, m, (*Machine).temperatures))
}

// The kernel's time of iowait goes back by a tick now and then; by whoever takes rates, that is a new start from zero.
func TestTheTimeOfAProcessorDoesNotGoBack(t *testing.T) {
	m := files(t, nil)
	require.NoError(t, os.MkdirAll(m.at("proc"), 0o755))
	for _, step := range []struct {
		iowait, guest int
		want, guests  float64
		why           string
	}{
		{500_00, 100, 500, 1, "it begins somewhere"},
		{499_99, 99, 500, 1, "one tick back"},
		{498_00, 100, 500, 1, "two seconds back"},
		{500_02, 101, 500.02, 1.01, "it goes on"},
		{2_00, 1, 2, 1.01, "the processor was taken out and put in again"},
		{3_00, 200, 3, 2, "it goes on from there"},
	} {
		text := fmt.Sprintf("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 10 0 0 0 %d 0 0 0 %d 0\nintr 1\nctxt 1\nbtime 1\n", step.iowait, step.guest)
		require.NoError(t, os.WriteFile(m.at("proc/stat"), []byte(text), 0o600))
		got := measured(t, m, (*Machine).processors)
		require.InDelta(t, step.want, got["node_cpu_seconds_total{0,iowait}"], 1e-9, step.why)
		require.InDelta(t, step.guests, got["node_cpu_guest_seconds_total{0,user}"], 1e-9, step.why)
	}
}

func TestFileSystemsOfTheNodeAloneAreAsked(t *testing.T) {
	lines := ""
	for i, l := range []string{
		"/ /dev/root squashfs ro", "/var /dev/vda3 ext4 rw", "/srv /dev/vda3 ext4 rw", "/broken /dev/vdb xfs rw",
		"/proc proc proc rw", "/device\\040data /dev/vdc ext4 rw", "/var/lib/kubelet/pods/x /dev/rbd0 ext4 rw", "/mnt fs:/ nfs rw", "/run/credentials/x.service x tmpfs rw",
		"/stopped /dev/vdd ext4 rw,errors=remount-ro,emergency_ro", "/cut /dev/vde ext4 rw,shutdown",
	} {
		f := strings.Fields(l)
		device := i
		if f[0] == "/srv" { // the same as /var
			device = 1
		}
		lines += fmt.Sprintf("%d 1 8:%d / %s rw - %s %s %s\n", 20+i, device, f[0], f[2], f[1], f[3])
	}
	got := measured(t, files(t, map[string]string{"proc/1/mountinfo": lines}), (*Machine).fileSystems)
	require.Equal(t, 1.0, got["node_filesystem_readonly{/dev/root,squashfs,/}"])
	require.Equal(t, 40*4096.0, got["node_filesystem_avail_bytes{/dev/vda3,ext4,/var}"])
	require.Equal(t, 1.0, got["node_filesystem_device_error{/dev/vdb,xfs,/broken}"])
	require.Equal(t, 0.0, got["node_filesystem_device_error{/dev/vdc,ext4,/device data}"])
	require.Equal(t, 0.0, got["node_filesystem_readonly{/dev/vda3,ext4,/var}"])
	require.Equal(t, 1.0, got["node_filesystem_readonly{/dev/vdd,ext4,/stopped}"], "ext4 after an error")
	require.Equal(t, 1.0, got["node_filesystem_readonly{/dev/vde,ext4,/cut}"])
	require.Len(t, got, 7+7+7+7+7+1)
}

func TestBondsTellTheirLegs(t *testing.T) {
	m := files(t, map[string]string{
		"sys/class/net/bonding_masters":               "bond0\n",
		"sys/class/net/bond0/bonding/slaves":          "eth0 eth1\n",
		"sys/class/net/eth0/bonding_slave/mii_status": "up\n",
		"sys/class/net/eth1/bonding_slave/mii_status": "down\n",
	})
	want := map[string]float64{"node_bonding_slaves{bond0}": 2, "node_bonding_active{bond0}": 1}
	require.Equal(t, want, measured(t, m, (*Machine).bonds))
}

func TestVirtualMemory(t *testing.T) {
	m := files(t, map[string]string{"proc/vmstat": "oom_kill 3\npgfault x\nnr_free 4\npswpin 1 2\n\n"})
	require.Equal(t, map[string]float64{"node_vmstat_oom_kill{}": 3}, measured(t, m, (*Machine).virtualMemory))
}

func TestAPartThatFailsCostsItsOwnRows(t *testing.T) {
	m := files(t, map[string]string{"proc/loadavg": "1 2 3 1/2 3\n", "proc/stat": "cpu x\n"})
	s := family.NewSink(Families())
	err := m.Measure(t.Context(), s)
	require.ErrorContains(t, err, "measure processors")
	all, _ := s.Families()
	names := ""
	for _, f := range all {
		names += f.GetName() + " "
	}
	require.Contains(t, names, "node_load1")
	require.NotContains(t, names, "node_cpu")
}

func FuzzChip(f *testing.F) {
	f.Add("temp1_input", "45500", "fan")
	f.Add("temp1_label", "\xff\n\"", "temp2_max")
	f.Fuzz(func(t *testing.T, name, text, other string) {
		dir := t.TempDir()
		for _, n := range []string{filepath.Base(name), filepath.Base(other), "name"} {
			_ = os.WriteFile(filepath.Join(dir, n), []byte(text), 0o600)
		}
		s := family.NewSink(Families())
		require.GreaterOrEqual(t, New("/").chip(s, dir, "x", maxSensors), 0)
		_, errs := s.Families()
		require.Empty(t, errs)
	})
}
