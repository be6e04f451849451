package monitor

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/ceph"
	"spore/services/ceph/cephx"
	cephnode "spore/services/ceph/node"
	"spore/services/kubernetes"
)

// testKey is a key of Ceph that says that it was made in that second.
func testKey(made, n byte) string {
	b := make([]byte, 28)
	b[0], b[10], b[27] = 1, 16, n
	binary.LittleEndian.PutUint32(b[2:], 1_800_000_000+uint32(made))
	return base64.StdEncoding.EncodeToString(b)
}

// refKey is the key of an entry of the bundle, which is another one for each.
func refKey(made byte, ref string) string {
	return testKey(made, byte(crc32.ChecksumIEEE([]byte(ref))))
}

func testCluster(c *ceph.Settings) *facts.Cluster {
	return &facts.Cluster{Name: "lab", Members: map[string][]string{"ceph-mon": {"a", "b"}, "ceph-osd": {"b", "o"}, "control-plane": {"k"}, "worker": {"k", "w"}}, Services: spec.Services{c, &kubernetes.Settings{}}}
}

// testWant is what node a wants with keys that were made in a second.
func testWant(t *testing.T, c *ceph.Settings, made byte) Want {
	t.Helper()
	w, err := Wanted(testCluster(c), "a", func(ref string) (string, error) { return refKey(made, ref), nil })
	require.NoError(t, err)
	return w
}

// fulfilled is a storage cluster that has all that is wanted.
func fulfilled(w Want) Have {
	h := Have{Entities: map[string]Entity{}, Options: map[[2]string]string{}, Rules: map[string]int{"replicated_rule": 0, w.Rule: 1}, Pools: map[string]Pool{}, Monitors: w.Monitors}
	for _, e := range w.Entities {
		h.Entities[e.Name] = e
	}
	for _, o := range w.Options {
		h.Options[[2]string{o.Section, o.Name}] = o.Value
	}
	for _, p := range w.Pools {
		h.Pools[p.Name] = Pool{p.Size, p.MinSize, w.Rule, []string{p.Application}}
	}
	for _, f := range w.Filesystems {
		h.Filesystems = append(h.Filesystems, f.Name)
	}
	return h
}

// words are the commands of changes as people would write them.
func words(changes []Change) []string {
	out := []string{}
	for _, c := range changes {
		if c.Args == nil {
			out = append(out, "import "+strings.TrimSpace(strings.SplitN(string(c.Keyring), "\n", 2)[0]))
			continue
		}
		out = append(out, strings.Join(c.Args, " "))
	}
	return out
}

func TestAnEmptyStorageClusterIsGivenEverything(t *testing.T) {
	w := testWant(t, &ceph.Settings{PoolSize: 2, Pools: []ceph.Pool{{Name: "volumes", Kubernetes: true}, {Name: "archive", Application: "rados", Size: 3, MinSize: 1}}}, 1)
	changes, err := Changes(w, Have{})
	require.NoError(t, err)
	require.Equal(t, []string{
		"import [client.admin]", "import [mgr.a]", "import [client.bootstrap-osd.b]", "import [client.bootstrap-osd.o]",
		"import [client.kubernetes-rbd.k]", "import [client.kubernetes-rbd.w]",
		"config set mon auth_allow_insecure_global_id_reclaim false",
		"config set global osd_pool_default_size 2",
		"config set global mon_allow_pool_size_one false",
		"config set mon mon_warn_on_pool_no_redundancy true",
		"osd crush rule create-replicated spore_host default host",
		"osd pool create volumes 32 32 replicated spore_host --size 2",
		"osd pool set volumes min_size 1",
		"osd pool application enable volumes rbd",
		"osd pool create archive 32 32 replicated spore_host --size 3",
		"osd pool set archive min_size 1",
		"osd pool application enable archive rados",
	}, words(changes))
	for _, c := range changes {
		require.NotContains(t, c.What, "AQA", "what is logged has no key")
		require.NotContains(t, strings.Join(c.Args, " "), "AQA", "a command line is seen by everybody on the machine")
	}
}

func TestAFileSystemIsMadeOfItsPools(t *testing.T) {
	c := &ceph.Settings{PoolSize: 2, Pools: []ceph.Pool{{Name: "rbd"}}, Filesystems: []ceph.Filesystem{{Name: "files", Kubernetes: true}, {Name: "mine", Size: 3, MinSize: 1}}}
	w := testWant(t, c, 1)
	changes, err := Changes(w, Have{})
	require.NoError(t, err)
	require.Equal(t, []string{
		"import [client.admin]", "import [mgr.a]", "import [mds.a]", "import [client.bootstrap-osd.b]", "import [client.bootstrap-osd.o]",
		"import [client.kubernetes-cephfs.k]", "import [client.kubernetes-cephfs.w]",
	}, words(changes)[:7])
	all := words(changes)
	require.Equal(t, []string{
		"osd pool create cephfs.files.meta 32 32 replicated spore_host --size 2",
		"osd pool set cephfs.files.meta min_size 1",
		"osd pool create cephfs.files.data 32 32 replicated spore_host --size 2",
		"osd pool set cephfs.files.data min_size 1",
		"osd pool create cephfs.mine.meta 32 32 replicated spore_host --size 3",
		"osd pool set cephfs.mine.meta min_size 1",
		"osd pool create cephfs.mine.data 32 32 replicated spore_host --size 3",
		"osd pool set cephfs.mine.data min_size 1",
		"fs new files cephfs.files.meta cephfs.files.data",
		"fs new mine cephfs.mine.meta cephfs.mine.data",
	}, all[len(all)-10:])

	h := fulfilled(w)
	h.Filesystems = []string{"mine", "of-somebody"}
	h.Pools["cephfs.files.data"] = Pool{3, 1, "spore_host", nil}
	changes, err = Changes(w, h)
	require.NoError(t, err)
	require.Equal(t, []string{"osd pool set cephfs.files.data size 2", "osd pool set cephfs.files.data min_size 1", "fs new files cephfs.files.meta cephfs.files.data"}, words(changes),
		"what its pools are for is said by fs new")
}

func TestWhoWorksWithFileSystems(t *testing.T) {
	names := func(c *ceph.Settings, kubernetes bool) (out []string) {
		cluster := testCluster(c)
		if !kubernetes {
			cluster.Services.Remove("kubernetes")
		}
		w, err := Wanted(cluster, "a", func(string) (string, error) { return testKey(1, 1), nil })
		require.NoError(t, err)
		for _, e := range w.Entities[2:] {
			if !strings.HasPrefix(e.Name, "client.bootstrap-osd.") {
				out = append(out, e.Name)
			}
		}
		return out
	}
	require.Equal(t, []string{"client.kubernetes-rbd.k", "client.kubernetes-rbd.w"}, names(&ceph.Settings{}, true), "no file system, no metadata server")
	require.Equal(t, []string{"mds.a"}, names(&ceph.Settings{Filesystems: []ceph.Filesystem{{Name: "mine"}}}, false))
	files := &ceph.Settings{Pools: []ceph.Pool{{Name: "a"}}, Filesystems: []ceph.Filesystem{{Name: "files", Kubernetes: true}}}
	require.Equal(t, []string{"mds.a", "client.kubernetes-cephfs"}, names(files, false), "a Kubernetes elsewhere may use it")
	require.Equal(t, []string{"mds.a", "client.kubernetes-cephfs.k", "client.kubernetes-cephfs.w"}, names(files, true))
}

func TestWhatIsThereIsLeftAlone(t *testing.T) {
	for name, c := range map[string]*ceph.Settings{
		"the defaults": {}, "one copy": {PoolSize: 1, FailureDomain: "osd"}, "pools": {Pools: []ceph.Pool{{Name: "a"}, {Name: "b", Size: 1}}},
		"file systems": {Filesystems: []ceph.Filesystem{{Name: "files", Kubernetes: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := testWant(t, c, 1)
			h := fulfilled(w)
			h.Pools["of-somebody"] = Pool{3, 2, "replicated_rule", nil}
			h.Entities["client.somebody"] = Entity{Name: "client.somebody", Key: "?"}
			changes, err := Changes(w, h)
			require.NoError(t, err)
			require.Empty(t, changes)
		})
	}
}

func TestOnlyWhatDiffersIsChanged(t *testing.T) {
	shared := ceph.Settings{Filesystems: []ceph.Filesystem{{Name: "files", Kubernetes: true}}}
	for _, tc := range []struct {
		name string
		c    ceph.Settings
		edit func(*Have)
		want []string
	}{
		{"a key that is missing", ceph.Settings{}, func(h *Have) { delete(h.Entities, "mgr.a") }, []string{"import [mgr.a]"}},
		{"an older key", ceph.Settings{}, func(h *Have) {
			h.Entities["client.admin"] = Entity{"client.admin", testKey(0, 9), cephnode.Caps["client.admin"]}
		}, []string{"import [client.admin]"}},
		{"a newer key", ceph.Settings{}, func(h *Have) {
			h.Entities["client.admin"] = Entity{"client.admin", testKey(2, 9), cephnode.Caps["client.admin"]}
		}, []string{}},
		{"a newer key that may do too much", ceph.Settings{}, func(h *Have) {
			h.Entities["client.kubernetes-rbd.k"] = Entity{"client.kubernetes-rbd.k", testKey(2, 9), map[string]string{"mon": "allow *"}}
		}, []string{"auth caps client.kubernetes-rbd.k mgr profile rbd pool=rbd mon profile rbd osd profile rbd pool=rbd"}},
		{"the user whose key all nodes shared, or that a monitor made by itself", ceph.Settings{}, func(h *Have) {
			h.Entities[cephx.OSD] = Entity{cephx.OSD, testKey(9, 9), map[string]string{"mon": "allow profile bootstrap-osd"}}
		}, []string{"auth rm client.bootstrap-osd"}},
		{"a worker that may ask the manager", ceph.Settings{}, func(h *Have) {
			e := h.Entities["client.kubernetes-rbd.w"]
			h.Entities[e.Name] = Entity{e.Name, e.Key, cephnode.KubernetesCaps(&ceph.Settings{}, true)}
		}, []string{"auth caps client.kubernetes-rbd.w mon profile rbd osd profile rbd pool=rbd"}},
		{"a node that may give up the OSDs of others", ceph.Settings{}, func(h *Have) {
			e := h.Entities["client.bootstrap-osd.o"]
			h.Entities[e.Name] = Entity{e.Name, e.Key, map[string]string{"mon": "allow profile bootstrap-osd"}}
		}, []string{"auth caps client.bootstrap-osd.o mon allow service mon r, allow service osd r, allow command 'osd new'"}},
		{"another number of copies", ceph.Settings{PoolSize: 2}, func(h *Have) { h.Pools["rbd"] = Pool{3, 2, "spore_host", []string{"rbd"}} },
			[]string{"osd pool set rbd size 2", "osd pool set rbd min_size 1"}},
		{"one copy, which Ceph does not like", ceph.Settings{PoolSize: 1}, func(h *Have) { h.Pools["rbd"] = Pool{3, 2, "spore_host", []string{"rbd"}} },
			[]string{"osd pool set rbd size 1 --yes-i-really-mean-it", "osd pool set rbd min_size 1"}},
		{"another failure domain", ceph.Settings{FailureDomain: "osd"}, func(h *Have) {
			delete(h.Rules, "spore_osd")
			h.Pools["rbd"] = Pool{3, 2, "spore_host", []string{"rbd"}}
		}, []string{"osd crush rule create-replicated spore_osd default osd", "osd pool set rbd crush_rule spore_osd"}},
		{"a pool that is for nothing", ceph.Settings{}, func(h *Have) { h.Pools["rbd"] = Pool{3, 2, "spore_host", nil} }, []string{"osd pool application enable rbd rbd"}},
		{"a setting that was taken back", ceph.Settings{}, func(h *Have) { h.Options[[2]string{"global", "mon_allow_pool_size_one"}] = "true" },
			[]string{"config set global mon_allow_pool_size_one false"}},
		{"a worker that may have shared volumes made", shared, func(h *Have) {
			e := h.Entities["client.kubernetes-cephfs.w"]
			h.Entities[e.Name] = Entity{e.Name, e.Key, cephnode.FSKubernetesCaps(&shared, true)}
		}, []string{"auth caps client.kubernetes-cephfs.w mds allow rw fsname=files path=/volumes/kubernetes mon allow r fsname=files osd allow rw tag cephfs data=files"}},
		{"the user that all nodes mounted as, and may still", shared, func(h *Have) {
			h.Entities[cephx.CephFS] = Entity{cephx.CephFS, testKey(9, 9), cephnode.FSKubernetesCaps(&shared, true)}
		}, []string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := testWant(t, &tc.c, 1)
			h := fulfilled(w)
			tc.edit(&h)
			changes, err := Changes(w, h)
			require.NoError(t, err)
			require.Equal(t, tc.want, words(changes))
		})
	}
}

func TestAKeyThatIsNoneIsRefused(t *testing.T) {
	_, err := Wanted(testCluster(&ceph.Settings{}), "a", func(string) (string, error) { return "password", nil })
	require.EqualError(t, err, "the secret ceph-admin-key: it is not a key of Ceph")
	_, err = Wanted(testCluster(&ceph.Settings{}), "a", func(string) (string, error) { return "", errors.New("not given") })
	require.EqualError(t, err, "not given")
	_, err = Wanted(testCluster(nil), "a", nil)
	require.ErrorContains(t, err, "the service ceph is not enabled")
	w := testWant(t, &ceph.Settings{}, 1)
	h := fulfilled(w)
	h.Entities["mgr.a"] = Entity{"mgr.a", "AQ==", nil}
	_, err = Changes(w, h)
	require.EqualError(t, err, "the key of mgr.a that Ceph has: it is not a key of Ceph")
}

func TestEachNodeHasAKeyOfItsOwn(t *testing.T) {
	w := testWant(t, &ceph.Settings{Filesystems: []ceph.Filesystem{{Name: "files", Kubernetes: true}}}, 1)
	seen := map[string]string{}
	for _, e := range w.Entities {
		require.Empty(t, seen[e.Key], "%s has the key of %s", e.Name, seen[e.Key])
		seen[e.Key] = e.Name
		made, err := keyMade(e.Key)
		require.NoError(t, err)
		require.EqualValues(t, 1_800_000_001, made.Unix(), "%s: a newer seed brings newer keys", e.Name)
	}
	// It is the one that the node's own bundle has.
	for name, tc := range map[string]struct{ seed, kind, node string }{
		"client.bootstrap-osd.o": {"ceph-osd-seed", cephx.OSD, "o"}, "client.kubernetes-rbd.w": {"ceph-rbd-seed", cephx.RBD, "w"},
		"client.kubernetes-cephfs.w": {"ceph-cephfs-seed", cephx.CephFS, "w"},
	} {
		key, err := cephx.ForNode(refKey(1, tc.seed), tc.kind, tc.node)
		require.NoError(t, err)
		require.Equal(t, name, seen[key])
	}
	// Where nobody has OSDs, no seed is asked for.
	c := testCluster(&ceph.Settings{Pools: []ceph.Pool{{Name: "a"}}})
	c.Members["ceph-osd"] = nil
	_, err := Wanted(c, "a", func(ref string) (string, error) {
		require.NotContains(t, ref, "seed")
		return testKey(1, 1), nil
	})
	require.NoError(t, err)
}

func TestKubernetesIsAUserOnlyWhereItIs(t *testing.T) {
	has := func(c *facts.Cluster) bool {
		w, err := Wanted(c, "a", func(string) (string, error) { return testKey(1, 1), nil })
		require.NoError(t, err)
		return slices.ContainsFunc(w.Entities, func(e Entity) bool { return strings.HasPrefix(e.Name, "client.kubernetes-rbd") })
	}
	require.True(t, has(testCluster(&ceph.Settings{})))
	require.False(t, has(testCluster(&ceph.Settings{Pools: []ceph.Pool{{Name: "a"}}})), "no pool is for it")
	without := testCluster(&ceph.Settings{})
	without.Services.Remove("kubernetes")
	require.False(t, has(without))
}

// scripted answers like the monitors of a storage cluster that does what it is told, unless it is told to be deaf. It stands
// for the time between the commands, which real monitors do not let a test choose; real_test.go has these.
type scripted struct {
	have  Have
	want  Want
	deaf  bool
	down  int
	lines []string
}

func (f *scripted) run(_ context.Context, input []byte, program string, args ...string) ([]byte, string, error) {
	if f.down > 0 {
		f.down--
		return nil, "", errors.New("timed out")
	}
	if strings.HasPrefix(string(input), "'auth' 'ls'\n") {
		return []byte(f.answers()), "", nil
	}
	f.lines = append(f.lines, strings.TrimSpace(string(input)))
	if !f.deaf {
		f.have = fulfilled(f.want)
	}
	return nil, "Error EINVAL: nobody listens", nil
}

func (f *scripted) answers() string {
	var auth, config, pools, rules, filesystems []string
	for _, e := range f.have.Entities {
		var caps []string
		for k, v := range e.Caps {
			caps = append(caps, fmt.Sprintf("%q: %q", k, v))
		}
		auth = append(auth, fmt.Sprintf(`{"entity": %q, "key": %q, "caps": {%s}}`, e.Name, e.Key, strings.Join(caps, ",")))
	}
	for k, v := range f.have.Options {
		config = append(config, fmt.Sprintf(`{"section": %q, "name": %q, "value": %q, "mask": ""}`, k[0], k[1], v))
	}
	for name, id := range f.have.Rules {
		rules = append(rules, fmt.Sprintf(`{"rule_id": %d, "rule_name": %q}`, id, name))
	}
	for name, p := range f.have.Pools {
		pools = append(pools, fmt.Sprintf(`{"pool_name": %q, "size": %d, "min_size": %d, "crush_rule": %d, "application_metadata": {%q: {}}}`, name, p.Size, p.MinSize, f.have.Rules[p.Rule], p.Applications[0]))
	}
	list := func(s []string) string { return "[" + strings.Join(s, ",") + "]" }
	for _, name := range f.have.Filesystems {
		filesystems = append(filesystems, fmt.Sprintf(`{"name": %q, "metadata_pool": "m"}`, name))
	}
	return fmt.Sprintf(`{"auth_dump": %s}`+"\n%s\n\n%s\n%s\n%s\n"+`{"mons": [{"name": "a"}, {"name": "old"}]}`, list(auth), list(config), list(rules), list(pools), list(filesystems))
}

func bootstrap(f *scripted) (said, status []string, err error) {
	bound := time.Minute
	if f.deaf {
		bound = 300 * time.Millisecond // It tries for ever.
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	err = Bootstrap(ctx, Options{
		Client: Client{Run: f.run, Conf: "/x", Entity: "mon."}, Want: f.want, Pause: 10 * time.Millisecond,
		Say: func(s string) { said = append(said, s) }, Status: func(s string) { status = append(status, s) },
	})
	return said, status, err
}

func TestTheBootstrapWaitsAppliesAndLooks(t *testing.T) {
	f := &scripted{want: testWant(t, &ceph.Settings{}, 1), down: 3, have: Have{Entities: map[string]Entity{"x": {}}}}
	said, status, err := bootstrap(f)
	require.NoError(t, err)
	require.Len(t, f.lines, 2, "one process imports the keys, another does all the rest")
	require.Contains(t, f.lines[0], "[client.admin]\n\tkey = ")
	require.Contains(t, f.lines[1], "'osd' 'pool' 'create' 'rbd' '32' '32' 'replicated' 'spore_host' '--size' '3'")
	require.Contains(t, status, "waits for the monitors and tries again: speak to the monitors: timed out")
	require.Len(t, said, 3, "%v: the wait once, what is applied, and the monitor that nobody knows", said)
	require.Contains(t, said[2], "the map of monitors has old, which cluster.yaml does not know")

	f.lines = nil
	said, _, err = bootstrap(f)
	require.NoError(t, err)
	require.Empty(t, f.lines, "the second time nothing is missing")
	require.Len(t, said, 1)
}

func TestKeysThatNoNodeHasAreTold(t *testing.T) {
	w := testWant(t, &ceph.Settings{}, 1)
	h := fulfilled(w)
	h.Monitors = nil
	for name, tc := range map[string]struct {
		also []string
		want string
	}{
		"none":                          {nil, ""},
		"of others":                     {[]string{"osd.0", "client.backup", "client.kubernetes-rbdx", "client.kubernetes-cephfsx"}, ""},
		"of a node that is gone":        {[]string{"client.kubernetes-rbd.old", "client.bootstrap-osd.old", "client.kubernetes-cephfs.old"}, "Ceph takes the keys of client.bootstrap-osd.old, client.kubernetes-cephfs.old, client.kubernetes-rbd.old, which no node"},
		"those that all nodes had once": {[]string{"client.kubernetes-rbd", "client.bootstrap-osd", "client.kubernetes-cephfs"}, "Ceph takes the keys of client.bootstrap-osd, client.kubernetes-cephfs, client.kubernetes-rbd, which no node"},
	} {
		t.Run(name, func(t *testing.T) {
			have := h
			have.Entities = maps.Clone(h.Entities)
			for _, e := range tc.also {
				have.Entities[e] = Entity{Name: e}
			}
			said := ""
			Options{Want: w, Say: func(text string) { said += text }}.strangers(have)
			if tc.want == "" {
				require.Empty(t, said)
				return
			}
			require.Contains(t, said, tc.want)
			require.Contains(t, said, "remove each with `ceph auth rm NAME`")
		})
	}
}

func TestTheBootstrapSaysWhatDidNotStay(t *testing.T) {
	f := &scripted{want: testWant(t, &ceph.Settings{}, 1), deaf: true, have: Have{Entities: map[string]Entity{"x": {}}}}
	_, status, err := bootstrap(f)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Contains(t, strings.Join(status, "\n"), "what was applied did not stay, beginning with the key of client.admin: Error EINVAL: nobody listens")
}

func TestAnswersThatAreNotWhatWasAskedAreRefused(t *testing.T) {
	whole := (&scripted{have: fulfilled(testWant(t, &ceph.Settings{}, 1))}).answers()
	_, err := parseHave(strings.NewReader(whole))
	require.NoError(t, err)
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":          {"", `read the answer to [auth ls]: EOF`},
		"one is missing":   {strings.Join(strings.Split(whole, "\n")[:4], "\n"), "read the answer to [osd pool ls detail]"},
		"another order":    {`[]` + whole, "read the answer to [auth ls]"},
		"cut off":          {whole[:len(whole)-3], "read the answer to [mon dump]: unexpected EOF"},
		"nobody is in it":  {`{} [] [] [] [] {}`, "they name no user and no monitor"},
		"text in between":  {"Error ENOENT\n" + whole, "read the answer to [auth ls]: invalid character"},
		"pools of nothing": {`{"auth_dump": []} [] [] {"a": 1} [] {"mons": []}`, "read the answer to [osd pool ls detail]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseHave(strings.NewReader(tc.text))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestAWordIsOneWordForPython(t *testing.T) {
	var input string
	c := Client{Run: func(_ context.Context, in []byte, _ string, _ ...string) ([]byte, string, error) {
		input = string(in)
		return nil, "", nil
	}}
	_, _, err := c.Batch(context.Background(), [][]string{{"auth", "caps", "x", "osd", "profile rbd pool=a, it's"}, {"mon", "dump"}})
	require.NoError(t, err)
	require.Equal(t, "'auth' 'caps' 'x' 'osd' 'profile rbd pool=a, it'\"'\"'s'\n'mon' 'dump'\n", input)
}

func TestAProgramsLastWordsAreInTheError(t *testing.T) {
	out, said, err := Exec(nil)(context.Background(), []byte("in"), "/bin/sh", "-c", "cat; echo one >&2; echo >&2; echo two >&2")
	require.NoError(t, err)
	require.Equal(t, "in", string(out))
	require.Equal(t, "one; two", said)
	_, _, err = Exec(nil)(context.Background(), nil, "/bin/sh", "-c", "seq 1 9 >&2; exit 22")
	require.EqualError(t, err, "/bin/sh: exit status 22: 6; 7; 8; 9")
	_, _, err = Exec(nil)(context.Background(), nil, "/bin/sh", "-c", "head -c 9999 /dev/zero | tr '\\0' x >&2; exit 1")
	require.Less(t, len(err.Error()), 500)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, _, err = Exec(nil)(ctx, nil, "/bin/sleep", "60")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// stand is a store whose programs do what Ceph's would do to files.
func stand(t *testing.T) (*Store, *[]string) {
	dir := t.TempDir()
	var ran []string
	s := &Store{
		Dir: filepath.Join(dir, "ceph-a"), FSID: "0f5a0e3c-5a0f-4d6e-8b8e-2a2d8b1c9f11", Name: "a", Conf: "/c", Keyring: "/k", Scratch: dir,
		UID: os.Getuid(), GID: os.Getgid(), Say: func(string) {}, Pause: time.Millisecond,
	}
	s.Run = func(_ context.Context, _ []byte, program string, args ...string) ([]byte, string, error) {
		ran = append(ran, filepath.Base(program)+" "+strings.ReplaceAll(strings.Join(args, " "), dir, "DIR"))
		if program == monProgram {
			return nil, "", os.WriteFile(filepath.Join(s.Dir+".new", "store"), []byte("data"), 0o600)
		}
		return nil, "", nil
	}
	return s, &ran
}

func TestTheStoreIsThereWhenItIsWhole(t *testing.T) {
	s, ran := stand(t)
	require.NoError(t, s.Form(context.Background(), []cephnode.Monitor{{Name: "a", Addr: addr("10.0.0.1")}, {Name: "b", Addr: addr("fd00::2")}}))
	require.Equal(t, []string{
		"monmaptool --create --clobber --fsid 0f5a0e3c-5a0f-4d6e-8b8e-2a2d8b1c9f11 --enable-all-features --addv a [v2:10.0.0.1:3300] --addv b [v2:[fd00::2]:3300] DIR/monmap",
		"ceph-mon --mkfs -c /c --id a --mon-data DIR/ceph-a.new --monmap DIR/monmap --fsid 0f5a0e3c-5a0f-4d6e-8b8e-2a2d8b1c9f11 --keyring /k",
	}, *ran)
	empty, err := s.Empty()
	require.NoError(t, err)
	require.False(t, empty)
	require.NoError(t, s.Check())
	require.NoDirExists(t, s.Dir+".new")
}

func TestWhatAnUnfinishedStartLeftIsMadeAnew(t *testing.T) {
	s, _ := stand(t)
	run := s.Run
	s.Run = func(ctx context.Context, in []byte, program string, args ...string) ([]byte, string, error) {
		if program == monProgram {
			require.NoError(t, os.WriteFile(filepath.Join(s.Dir+".new", "half"), nil, 0o600))
			return nil, "", errors.New("power cut")
		}
		return run(ctx, in, program, args...)
	}
	require.ErrorContains(t, s.Form(context.Background(), nil), "make the database of the monitor: power cut")
	empty, err := s.Empty()
	require.NoError(t, err)
	require.True(t, empty, "half a store is none")
	s.Run = run
	require.NoError(t, s.Form(context.Background(), nil))
	require.NoFileExists(t, filepath.Join(s.Dir, "half"))
	require.FileExists(t, filepath.Join(s.Dir, "store"))
}

func TestAMonitorThatJoinsSaysForWhomItWaits(t *testing.T) {
	s, ran := stand(t)
	run, fails := s.Run, 3
	s.Run = func(ctx context.Context, in []byte, program string, args ...string) ([]byte, string, error) {
		if program == cephProgram && fails > 0 {
			fails--
			return nil, "", errors.New("timed out")
		}
		return run(ctx, in, program, args...)
	}
	var said []string
	s.Say = func(text string) { said = append(said, text) }
	require.NoError(t, s.Join(context.Background(), []string{"b", "c"}))
	require.Equal(t, []string{"waits for a quorum of the other monitors (b, c)", said[1]}, said, "at once, and why, once")
	require.Contains(t, said[1], "waits for a quorum of the other monitors (b, c): ceph mon getmap")
	require.Equal(t, "ceph -c /c -n mon. --connect-timeout 30 --format json mon getmap -o DIR/monmap", (*ran)[0])

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	fails = 1 << 30
	require.NoError(t, os.RemoveAll(s.Dir))
	require.ErrorIs(t, s.Join(ctx, nil), context.DeadlineExceeded)
	require.NoDirExists(t, s.Dir)
}

func TestDataOfAnotherStorageClusterIsRefused(t *testing.T) {
	s, _ := stand(t)
	require.NoError(t, s.Form(context.Background(), nil))
	s.FSID = "11111111-5a0f-4d6e-8b8e-2a2d8b1c9f11"
	require.ErrorContains(t, s.Check(), `is data of the storage cluster "0f5a0e3c-5a0f-4d6e-8b8e-2a2d8b1c9f11", and the bundle of this node is for 11111111-`)
	require.NoError(t, os.Remove(filepath.Join(s.Dir, fsidFile)))
	require.ErrorContains(t, s.Check(), "was not made by spore-agent")
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir, fsidFile), bytes.Repeat([]byte("x"), 1000), 0o600))
	require.ErrorContains(t, s.Check(), "read whose data")
}

// socket is an admin socket that gives one answer after the other, and the last for ever.
func socket(t *testing.T, answers ...string) string {
	path := filepath.Join(t.TempDir(), "a.asok")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for i := 0; ; i++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			request, _ := io.ReadAll(io.LimitReader(conn, int64(len(`{"format":"json","prefix":"mon_status"}`)+1)))
			if string(request) == `{"format":"json","prefix":"mon_status"}`+"\x00" {
				text := answers[min(i, len(answers)-1)]
				_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
			}
			conn.Close()
		}
	}()
	return path
}

func TestTheUnitIsActiveWhenTheMonitorIsOneOfAQuorum(t *testing.T) {
	const others = `"name": "b", "monmap": {"mons": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}`
	path := socket(t, `{"state": "probing", `+others+`}`, `{"state": "probing", `+others+`}`, `{"state": "synchronizing", `+others+`}`, `{"state": "peon", `+others+`}`)
	var said []string
	err := AwaitQuorum(context.Background(), path, func() bool { return true }, func(s string) { said = append(said, s) })
	require.NoError(t, err)
	require.Equal(t, []string{"waits for a quorum with a, c; the monitor is probing", "takes over the data of the other monitors"}, said)

	err = AwaitQuorum(context.Background(), filepath.Join(t.TempDir(), "none"), func() bool { return false }, func(string) {})
	require.ErrorContains(t, err, "the monitor ended before it was one of a quorum")

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err = AwaitQuorum(ctx, socket(t, `{"state": "electing", "name": "a", "monmap": {"mons": [{"name": "a"}]}}`), func() bool { return true }, func(string) {})
	require.ErrorContains(t, err, "the monitor is electing: context deadline exceeded")
}

func TestAnAnswerIsReadWithinBounds(t *testing.T) {
	for name, tc := range map[string]struct{ data, want string }{
		"nothing":          {"", "read the length of the answer: EOF"},
		"half a length":    {"\x00\x00", "read the length of the answer: unexpected EOF"},
		"too long":         {"\xff\xff\xff\xff", "the answer has 4294967295 bytes, more than 4194304"},
		"less than it was": {"\x00\x00\x00\x05abc", "read the answer: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readAnswer(strings.NewReader(tc.data))
			require.EqualError(t, err, tc.want)
		})
	}
	out, err := readAnswer(strings.NewReader("\x00\x00\x00\x02{}and more"))
	require.NoError(t, err)
	require.Equal(t, "{}", string(out))
	_, err = parseMonStatus([]byte("{}"))
	require.ErrorContains(t, err, "it has no state")
	_, err = parseMonStatus([]byte("["))
	require.ErrorContains(t, err, "read the monitor's status")
}

func FuzzHave(f *testing.F) {
	f.Add((&scripted{have: Have{Entities: map[string]Entity{"x": {}}}}).answers())
	f.Add(`{"auth_dump": []} [] [] [] [] {"mons": []}`)
	f.Fuzz(func(t *testing.T, text string) {
		h, err := parseHave(strings.NewReader(text))
		if err != nil {
			return
		}
		w := Want{Rule: "r", Domain: "host", Pools: (&ceph.Settings{}).AllPools(), Filesystems: []ceph.Filesystem{{Name: "files"}}, Entities: []Entity{{"client.admin", testKey(1, 1), nil}}}
		_, _ = Changes(w, h)
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x13{\"state\": \"probing\"}"))
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := readAnswer(bytes.NewReader(data))
		if err != nil {
			return
		}
		if s, err := parseMonStatus(out); err == nil {
			require.NotEmpty(t, s.State)
			_ = waitText(s)
		}
	})
}

func FuzzKeyMade(f *testing.F) {
	f.Add(testKey(1, 1))
	f.Add("AQ==")
	f.Fuzz(func(t *testing.T, key string) {
		if made, err := keyMade(key); err == nil {
			require.GreaterOrEqual(t, made.Unix(), int64(0))
		}
	})
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestAMonitorThatHangsIsAskedAsLongAsWhoAsksWaits(t *testing.T) {
	dir, err := os.MkdirTemp("", "mon") // The path of a socket has at most 107 bytes.
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "mon.a.asok")) // Nobody takes the connection.
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err = Status(ctx, filepath.Join(dir, "mon.a.asok"))
	require.ErrorContains(t, err, "i/o timeout")
	require.Less(t, time.Since(begun), socketBound)
}
