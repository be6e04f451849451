package services

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/dataversion"
)

const wayBackPage = "../docs/way-back.md"

// wayBackTable is the table of docs/way-back.md.
func wayBackTable() string {
	var b bytes.Buffer
	b.WriteString("| data | where | version of | read by | source |\n|---|---|---|---|---|\n")
	for _, r := range Ours().Data() {
		of := "payload `" + r.Payload + "`"
		switch {
		case r.Package != "":
			of = "package `" + r.Package + "`"
		case r.Own != "":
			of = "format of `" + r.Own + "`"
		}
		keeps := r.Keeps
		if keeps == "" {
			keeps = "nothing is kept"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.Name, keeps, of, r.Rule, r.Source)
	}
	return b.String()
}

func TestTheDocumentedWaysBackAreThoseOfTheRows(t *testing.T) {
	page, err := os.ReadFile(wayBackPage)
	require.NoError(t, err)
	begin := bytes.Index(page, []byte("| data |"))
	require.Greater(t, begin, 0)
	end := begin + bytes.Index(append(page[begin:], "\n\n"...), []byte("\n\n")) + 1
	if os.Getenv("UPDATE") != "" {
		fresh := slices.Concat(page[:begin], []byte(wayBackTable()), page[min(end, len(page)):])
		require.NoError(t, os.WriteFile(wayBackPage, fresh, 0o644))
		return
	}
	require.Equal(t, wayBackTable(), string(page[begin:end]), "UPDATE=1 go test ./services writes it anew")
}

// Every service says what it keeps, or that it keeps nothing: who adds one has to think of it.
func TestEveryServiceSaysWhatItKeeps(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Ours().All() {
		require.NotEmpty(t, s.Data, "%s has no row of what it keeps", s.Name)
		kept := map[string]bool{}
		for _, r := range s.Data {
			require.False(t, names[r.Name], r.Name)
			names[r.Name] = true
			require.NoError(t, dataversion.Check(map[string]string{r.Name: "1.0"}))
			require.NotEmpty(t, r.Rule, r.Name)
			require.NotEmpty(t, r.Source, r.Name)
			require.Equal(t, r.Keeps == "", r.Judge == nil, "%s: what is kept is judged", r.Name)
			of := slices.DeleteFunc([]string{r.Package, r.Payload, r.Own}, func(s string) bool { return s == "" })
			require.Len(t, of, 1, "%s is of a package, of a payload, or of a program of ours", r.Name)
			require.Equal(t, r.Own == "", r.Format == "", "%s: a program of ours has a format", r.Name)
			for _, p := range s.Programs {
				if slices.Contains(p.Packages, r.Package) || slices.Contains(p.Payloads, r.Payload) ||
					slices.Contains(p.Own, r.Own) {
					kept[r.Name] = true
				}
			}
			require.True(t, kept[r.Name], "no program of %s carries what %s is of", s.Name, r.Name)
			for _, role := range r.Roles {
				found, ok := Ours().Lookup(role)
				require.True(t, ok && found.Service == s.Name && found.Name == role, "%s: %s", r.Name, role)
			}
			require.NotEmpty(t, r.Roles, r.Name)
		}
	}
}

// What upstream says of its releases.
func TestWhichVersionsReadWhatNewerOnesWrote(t *testing.T) {
	const safe, unsafe, unknown = dataversion.Safe, dataversion.Unsafe, dataversion.Unknown
	for _, tt := range []struct {
		data, newer, older string
		want               dataversion.Verdict
		why                string
	}{
		{"etcd", "v3.6.16", "v3.6.4", safe, "patch releases"},
		{"etcd", "v3.6.4", "v3.5.21", unsafe, "etcdctl downgrade enable 3.5"},
		{"etcd", "v3.7.3", "v3.6.16", unsafe, "etcd 3.6 does not start on the data of a cluster of version 3.7"},
		{"etcd", "v4.0.0", "v3.9.0", unsafe, ""},
		{"etcd", "v3.6.0", "v3.6.0-rc.5", unknown, "no release"},
		{"etcd", "v3.6.16", "v3.7.0", safe, "no older release"},

		{"kubernetes", "v1.36.3", "v1.36.0", safe, "patch releases"},
		{"kubernetes", "v1.37.1", "v1.36.3", safe, "except for what only 1.37 has"},
		{"kubernetes", "v1.37.1", "v1.35.9", unsafe, "only the release before is meant to"},
		{"kubernetes", "v2.0.0", "v1.99.0", unsafe, ""},
		{"kubelet", "v1.36.3", "v1.36.0", safe, "checkpoints"},
		{"kubelet", "v1.37.1", "v1.36.3", unknown, "nothing promises that kubelet 1.36 reads the checkpoints of 1.37"},
		{"containerd", "v2.4.2", "v2.2.0", safe, "only adds"},
		{"containerd", "v2.0.0", "v1.7.27", unknown, "containerd 1 reads the data of containerd 2"},

		{"ceph", "18.2.7+ds-1+deb13u1", "18.2.4+ds-12", safe, "point releases"},
		{"ceph", "18.2.7+ds-1+deb13u1", "18.2.7+ds-1", safe, "no older release"},
		{"ceph", "19.2.3+ds-1", "18.2.7+ds-1+deb13u1", unsafe, "18 does not read what 19 wrote"},
		{"ceph", "18.2.0+ds-1", "18.1.3+ds-1", unsafe, "a release for tests"},
		{"ceph", "18.2.0+ds-1", "18.2.0~rc1+ds-1", unknown, "no release"},

		{"kafka", "4.3.1", "4.3.0", safe, "the same metadata.version"},
		{"kafka", "4.3.1", "4.2.0", unknown, "kafka-features describe"},
		{"kafka", "4.0.0", "3.9.1", unknown, "metadata.version is one of 3.9 or older"},
		{"kafka", "4.0.0", "3.2.3", unsafe, "Kafka 3.2 has no metadata"},
		{"kafka", "3.9.0", "2.8.2", unsafe, ""},

		{"mosquitto", "2.0.22-1", "2.0.21-1", safe, "the same format"},
		{"mosquitto", "2.1.0-1", "2.0.21-1", unknown, "mosquitto 2.0 reads the file of 2.1"},

		{"victoria-logs", "v1.51.1", "v1.51.0", safe, "the same format"},
		{"victoria-logs", "v1.52.0", "v1.51.1", unknown, "nothing promises that VictoriaLogs 1.51 reads what 1.52 wrote"},
		{"spore-logs-store", "1.1", "1.0", safe, "reads the queue of format 1.1"},
		{"spore-logs-store", "2.0", "1.0", unsafe, "does not read the queue of format 2.0, and puts aside what waits in it"},

		{"coredns", "v1.15.0", "v1.12.0", safe, "keeps nothing"},
		{"coredns", "main", "v1.12.0", safe, "keeps nothing"},
	} {
		ways := Ours().WayBack(map[string]string{tt.data: tt.newer}, map[string]string{tt.data: tt.older}, nil)
		require.Len(t, ways, 1, tt.data)
		require.Equal(t, tt.want, ways[0].Verdict, "%s", ways[0])
		require.Contains(t, ways[0].Why, tt.why)
		judged := !strings.Contains(ways[0].Why, "release") || strings.Contains(ways[0].Why, "releases")
		require.True(t, !judged || tt.data == "coredns" || ways[0].Source != "", "%s: no source", ways[0])
	}
}

func TestANodeIsAskedOnlyForTheDataOfItsRoles(t *testing.T) {
	newer := map[string]string{"etcd": "v3.7.0", "kubernetes": "v1.37.0", "kubelet": "v1.37.0", "mosquitto": "2.0.22-1", "kafka": "4.3.1"}
	older := map[string]string{"etcd": "v3.6.0", "kubernetes": "v1.36.0", "kubelet": "v1.36.0", "mosquitto": "2.0.21-1", "kafka": "4.3.0"}
	for role, want := range map[string]string{
		"mqtt-broker": "mosquitto safe", "kafka-controller": "kafka safe", "worker": "kubelet unknown",
		"control-plane": "etcd unsafe, kubernetes safe, kubelet unknown", "dns-server": "", "ceph-mon": "",
	} {
		var got []string
		for _, w := range Ours().WayBack(newer, older, []string{role}) {
			got = append(got, w.Data+" "+w.Verdict.String())
		}
		require.Equal(t, want, strings.Join(got, ", "), role)
	}
}

func TestTheVersionsOfAnImage(t *testing.T) {
	got, err := Ours().DataVersions(strings.NewReader(`{"packages":[{"name":"ceph-base","version":"18.2.7+ds-1+deb13u1"},{"name":"mosquitto","version":"2.0.21-1"}],
		"payloads":[{"name":"etcd","version":"v3.6.16"},{"name":"kubernetes","version":"v1.36.3"},{"name":"containerd/containerd","version":"v2.4.2"},
		{"name":"containerd/containerd-shim-runc-v2","version":"v2.4.2"},{"name":"coredns","version":"v1.15.0"},
		{"name":"spore-logs-store","version":"","format":"1.0"},{"name":"spore-agent","version":"","format":"9.0"},
		{"name":"kafka/kafka-tool","version":"4.3.1"},{"name":"kafka/lz4-java-1.10.2.jar","version":"1.10.2","artifact":{"name":"lz4-java"}}]}`))
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"ceph": "18.2.7+ds-1+deb13u1", "mosquitto": "2.0.21-1", "etcd": "v3.6.16", "kubernetes": "v1.36.3", "kubelet": "v1.36.3", "containerd": "v2.4.2", "kafka": "4.3.1",
		"spore-logs-store": "1.0",
	}, got)
}
