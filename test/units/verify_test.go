package units

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/bootinfo"
	"spore/agent/paths"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services"
	"spore/services/kafka"
	"spore/services/kubernetes"
)

// newer are settings that the systemd of the image (257) knows and that of Debian 12 (252) does not.
var newer = regexp.MustCompile(`Unknown key '(ImportCredential|OpenFile|LogFilterPatterns|RestartMode|RestartSteps|RestartMaxDelaySec)' in section`)

// TestSystemdAcceptsEveryUnit lets systemd load the units beside its own, with stand-ins for the programs.
func TestSystemdAcceptsEveryUnit(t *testing.T) {
	root := t.TempDir()
	units := filepath.Join(root, "etc/systemd/system")
	require.NoError(t, os.MkdirAll(units, 0o755))
	copyUnits(t, "../../units", units)
	copyUnits(t, "/usr/lib/systemd/system", filepath.Join(root, "usr/lib/systemd/system"))
	for _, program := range regexp.MustCompile(`(?m)^Exec\w+=[-!+]*(/\S+)`).FindAllStringSubmatch(all(t, units), -1) {
		path := filepath.Join(root, program[1])
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
	}
	files, err := filepath.Glob("../../units/*.*")
	require.NoError(t, err)
	args := []string{"verify", "--man=no", "--root=" + root}
	for _, f := range files {
		if ext := filepath.Ext(f); ext != ".preset" && ext != ".md" && ext != ".go" {
			args = append(args, filepath.Base(f))
		}
	}
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	require.NoError(t, err, "run make deps\n%s", out)
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, root+"/etc/") {
			require.Regexp(t, newer, line)
		}
	}
	require.NotContains(t, string(out), "ordering cycle")
}

func TestEveryRoleHasItsTarget(t *testing.T) {
	for _, r := range services.Ours().Roles() {
		data, err := os.ReadFile(filepath.Join("../../units", r.Target))
		require.NoError(t, err, "role %s", r.Name)
		for _, name := range r.Programs {
			p, ok := services.Ours().LookupProgram(name)
			require.True(t, ok)
			if !strings.Contains(p.Unit, "@.") { // ceph-disks.service knows the instances.
				require.Contains(t, string(data), "Wants="+p.Unit, "the target of %s starts %s", r.Name, p.Unit)
			}
			require.FileExists(t, filepath.Join("../../units", p.Unit))
		}
	}
}

// A judge that ends is started again and is no failure at once: a failure restarts the machine, as a judge does that
// ends again and again.
func TestTheJudgeOfATrialIsStartedAgain(t *testing.T) {
	data, err := os.ReadFile("../../units/spore-trial.service")
	require.NoError(t, err)
	for _, line := range []string{
		"Restart=on-failure", "RestartMode=direct", "StartLimitIntervalSec=1h", "StartLimitBurst=5", "FailureAction=reboot",
	} {
		require.Contains(t, string(data), "\n"+line+"\n")
	}
}

// TestNothingWaitsForWhatIsOrderedAfterIt holds the order that keeps the boot free of deadlocks.
func TestNothingWaitsForWhatIsOrderedAfterIt(t *testing.T) {
	for _, tc := range []struct{ unit, line string }{
		{"cluster-detect.service", "DefaultDependencies=no"},
		{"cluster-detect.service", "Before=systemd-networkd.service systemd-sysctl.service systemd-timesyncd.service"},
		{"cluster-detect.service", "Before=spore-state.service var.mount sysinit.target shutdown.target"},
		{"cluster-detect-network.service", "After=cluster-detect.service systemd-networkd.service"},
		{"cluster-detect-network.service", "Before=spore-state.service var.mount shutdown.target"},
		{"spore-probe.service", "Before=network-pre.target systemd-networkd.service shutdown.target"},
		{"spore-state.service", "Before=var.mount shutdown.target"},
		{"spore-bundle.service", "After=spore-state.service var.mount cluster-detect.service cluster-detect-network.service"},
		{"spore-bundle.service", "Before=spore-agent.service shutdown.target"},
		{"spore-passphrase.service", "Type=exec"},
		{"spore-enroll.service", "Type=exec"},
		{"spore-passphrase.service", "OnSuccess=spore-enroll.service"},
		{"spore-passphrase.service", "ConditionPathExists=" + paths.BundleAsk},
		{"spore-enroll.service", "ConditionPathExists=|" + bootinfo.NetworkDir},
		{"spore-enroll.service", "ConditionPathExists=|" + paths.BundleEnroll},
		{"spore-enroll.service", "After=spore-bundle.service systemd-networkd.service"},
		{"var.mount", "After=spore-state.service cluster-detect.service cluster-detect-network.service"},
	} {
		data, err := os.ReadFile(filepath.Join("../../units", tc.unit))
		require.NoError(t, err)
		require.Contains(t, string(data), tc.line+"\n", tc.unit)
	}
	for _, unit := range []string{"cluster-detect.service", "cluster-detect-network.service", "spore-probe.service", "spore-state.service"} {
		data, err := os.ReadFile(filepath.Join("../../units", unit))
		require.NoError(t, err)
		require.NotRegexp(t, `(?m)^(PrivateTmp|StateDirectory|CacheDirectory|LogsDirectory|RequiresMountsFor)=`, string(data), "%s would wait for /var", unit)
	}
	data, err := os.ReadFile("../../units/spore-passphrase.service")
	require.NoError(t, err)
	require.NotContains(t, string(data), "Before=", "nobody waits for a person at the console")
	data, err = os.ReadFile("../../units/cluster-detect-network.service")
	require.NoError(t, err)
	require.NotContains(t, string(data), "[Install]", "it would make /var wait for networkd on every machine")
}

// TestEachProgramIsGivenItsSecretsAsCredentials holds that no unit gets a secret in another way, or another program's.
func TestEachProgramIsGivenItsSecretsAsCredentials(t *testing.T) {
	for _, p := range services.Ours().Programs() {
		data, err := os.ReadFile(filepath.Join("../../units", p.Unit))
		require.NoError(t, err)
		want := "LoadCredential=secret:" + paths.Secrets + "/" + p.Name + "\n"
		if p.NeedsSecrets || len(p.Secrets) > 0 {
			require.Contains(t, string(data), want)
		}
		require.NotContains(t, strings.ReplaceAll(string(data), want, ""), paths.Secrets, p.Unit)
	}
	require.NotRegexp(t, `(?m)^(SetCredential|PassEnvironment)`, all(t, "../../units"))
}

// fromOutside are the credentials that our units take from firmware or a hypervisor, and what checks each.
var fromOutside = map[string]string{
	"cluster-detect.service ImportCredential=spore.node":           "identity.Match: one DNS label, which has to be a node of the image",
	"cluster-detect.service ImportCredential=spore.meta-data":      "nocloud.Find: two texts with bounds",
	"cluster-detect.service ImportCredential=spore.user-data":      "nocloud.Find: the key spore; identity.Match and delivery.Take",
	"cluster-detect.service ImportCredential=spore.network-config": "nocloud.Find: addresses, routers and cards that there are",
	"spore-bundle.service ImportCredential=spore.bundle":           "delivery.Take: its signature, and age",
	"spore-enroll.service ImportCredential=spore.bundle":           "delivery.Take",
	"spore-passphrase.service ImportCredential=spore.bundle":       "delivery.Take",
	"spore-renew.service ImportCredential=spore.bundle":            "delivery.Take",
	"spore-state.service ImportCredential=spore.bundle":            "delivery.Take: its recovery key",
	"spore-install.service ImportCredential=spore.install":         "install.ParseSelector: a disk's own name",
	"spore-install.service ConditionCredential=|spore.install":     "install.ParseSelector",
}

// What comes from outside of the image is data, of which each unit takes what a row here names.
func TestOurUnitsTakeFromOutsideWhatARowNames(t *testing.T) {
	files, err := filepath.Glob("../../units/*.*")
	require.NoError(t, err)
	setting := regexp.MustCompile(`(?m)^((?:Import|Load|Condition|Assert)Credential(?:Encrypted)?)=(.*)$`)
	found := map[string]bool{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range setting.FindAllStringSubmatch(string(data), -1) {
			if m[1] == "LoadCredential" && strings.HasPrefix(m[2], "secret:"+paths.Secrets+"/") {
				continue // the node's own
			}
			row := filepath.Base(f) + " " + m[0]
			require.Contains(t, fromOutside, row, "name what checks it, if anything does")
			found[row] = true
		}
	}
	require.Len(t, found, len(fromOutside), "a row is left over")
}

// asRoot are the steps that run as root in units of another user, whose folders that user can write, and the tests that
// plant links there.
var asRoot = map[string]string{
	"etcd.service /usr/bin/spore-agent etcd-member":                          "services/kubernetes/etcd/origin, TestALinkInEtcdsFolderLeadsNowhere; services/kubernetes/etcd/restore, TestALinkInEtcdsFolderLeadsNowhereInARestore",
	"etcd-members.service /usr/bin/spore-etcd promote":                       "it writes below /run/spore alone",
	"ceph-mon.service /usr/bin/spore-agent ceph-mon":                         "services/ceph/monitor, TestALinkInCephsFolderLeadsNowhere",
	"kafka.service /usr/bin/spore-agent kafka-format":                        "services/kafka/kraft, TestALinkInKafkasFolderLeadsNowhere",
	"spore-logs.service /usr/bin/spore-logs share /run/spore-logs/send.json": "agent/logs/share, TestTheFileOfAnAccountIsMadeForItsGroup and TestTheGroupMayReadWhatIsThereAndWhatComes",
}

// A step as root in a folder of another user is one that links have to lead nowhere in.
func TestWhatRunsAsRootInAUnitOfAnotherUserIsListed(t *testing.T) {
	files, err := filepath.Glob("../../units/*.service")
	require.NoError(t, err)
	user, root := regexp.MustCompile(`(?m)^User=[a-z]`), regexp.MustCompile(`(?m)^Exec\w+=[-@:|]*[+!]+[-@:|]*(.*)$`)
	found := map[string]bool{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		if !user.Match(data) {
			continue
		}
		for _, m := range root.FindAllStringSubmatch(string(data), -1) {
			row := filepath.Base(f) + " " + m[1]
			require.Contains(t, asRoot, row, "name the test that plants links in the folders of its user")
			found[row] = true
		}
	}
	require.Len(t, found, len(asRoot), "a row is left over")
}

func copyUnits(t *testing.T, from, to string) {
	require.NoError(t, os.MkdirAll(to, 0o755))
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil // A link that leads nowhere.
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o644)
	}))
}

func all(t *testing.T, dir string) string {
	var b strings.Builder
	files, err := filepath.Glob(dir + "/*.service")
	require.NoError(t, err)
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		b.Write(data)
	}
	return b.String()
}

// What a unit takes from the files in /etc/cluster-config/environment is in them, and nothing is in those of these
// programs that their units do not take.
func TestUnitsReadTheEnvironmentFilesOfTheNode(t *testing.T) {
	c := &facts.Cluster{Network: spec.Network{ServiceCIDRs: []string{"10.79.0.0/16"}}, Services: spec.Services{&kubernetes.Settings{}, &kafka.Settings{}},
		Members: map[string][]string{"control-plane": {"all-01"}, "kafka-broker": {"all-01"}}}
	n := &facts.Node{Name: "all-01", IPs: []string{"10.77.0.21"}, Roles: []string{"control-plane", "kafka-broker"}}
	files := services.Environment(c, n, 1<<30)
	used := regexp.MustCompile(`\$\{?(\w+)`)
	for _, program := range []string{"kubelet", "kube-apiserver", "kafka"} {
		t.Run(program, func(t *testing.T) {
			unit, err := os.ReadFile("../../units/" + program + ".service")
			require.NoError(t, err)
			require.Contains(t, string(unit), "\nEnvironmentFile="+services.EnvironmentDir+"/"+program+".env\n", "without it, the unit fails")
			var set, taken []string
			for line := range strings.Lines(string(files[program+".env"])) {
				name, _, _ := strings.Cut(line, "=")
				set = append(set, name)
			}
			for _, line := range regexp.MustCompile(`(?m)^ExecStart=.*$`).FindAllString(string(unit), -1) {
				for _, m := range used.FindAllStringSubmatch(line, -1) {
					if m[1] != "ARGUMENTS" { // That one is rendered.
						taken = append(taken, m[1])
					}
				}
			}
			require.NotEmpty(t, set)
			require.ElementsMatch(t, set, taken)
		})
	}
}
