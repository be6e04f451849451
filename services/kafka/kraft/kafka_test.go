package kraft

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"spore/services/kafka"
)

const meta = "#\n#Sat Nov 21 20:42:11 UTC 2026\ncluster.id=4L6g3nShT-eMCtK--X86sw\ndirectory.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=1065704995\nversion=1\n"

func TestWhoseADirectoryIs(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       *Meta
		problem    string
	}{
		{"as Kafka writes it", meta, &Meta{"4L6g3nShT-eMCtK--X86sw", 1065704995, "MkU3OEVBNTcwNTJENDM2Qg"}, ""},
		{"with blanks", " version = 1 \r\ncluster.id= a\nnode.id =0\n", &Meta{"a", 0, ""}, ""},
		{"of the time of ZooKeeper", strings.Replace(meta, "version=1", "version=0", 1), nil, `version "0" is not 1`},
		{"nothing", "", nil, `version "" is not 1`},
		{"cut off", "#\ncluster.id", nil, `"cluster.id" is not KEY=VALUE`},
		{"without a cluster", "version=1\nnode.id=1\n", nil, "no cluster.id"},
		{"a node that is no number", "version=1\ncluster.id=a\nnode.id=x\n", nil, `node.id "x"`},
		{"a node below zero", "version=1\ncluster.id=a\nnode.id=-1\n", nil, `node.id "-1"`},
		{"a node that is too large", "version=1\ncluster.id=a\nnode.id=2147483648\n", nil, `node.id "2147483648"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseMeta([]byte(tt.text))
			if tt.problem != "" {
				require.ErrorContains(t, err, tt.problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func FuzzParseMeta(f *testing.F) {
	f.Add([]byte(meta))
	f.Add([]byte("version=1\n\\\n:=\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := parseMeta(data); err == nil {
			require.NotEmpty(t, m.Cluster)
			require.GreaterOrEqual(t, m.Node, int32(0))
		}
	})
}

func credential(iterations string, salt, salted int) string {
	b := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	return `SCRAM-SHA-512=[iterations=` + iterations + `,salt="` + b(salt) + `",saltedpassword="` + b(salted) + `"]`
}

func TestCredentials(t *testing.T) {
	c, err := ParseCredential([]byte(credential("8192", 24, 64) + "\n"))
	require.NoError(t, err)
	require.Equal(t, Credential{8192, make([]byte, 24), make([]byte, 64)}, c)
	for name, tt := range map[string]struct{ text, want string }{
		"a plain password":         {"hunter two", "not a salted password"},
		"nothing":                  {"", "not a salted password"},
		"two lines":                {credential("8192", 24, 64) + "\nx", "not a salted password"},
		"of another hash":          {strings.Replace(credential("8192", 24, 64), "512", "256", 1), "not a salted password"},
		"too few iterations":       {credential("4095", 24, 64), "out of bounds"},
		"too many iterations":      {credential("16385", 24, 64), "out of bounds"},
		"a short salted password":  {credential("8192", 24, 63), "not 64 bytes"},
		"a salt that is no base64": {strings.Replace(credential("8192", 24, 64), `salt="AAAA`, `salt="A=AA`, 1), "salt is not base64"},
	} {
		_, err := ParseCredential([]byte(tt.text))
		require.ErrorContains(t, err, tt.want, name)
		require.NotContains(t, err.Error(), "hunter")
	}
}

func FuzzParseCredential(f *testing.F) {
	f.Add([]byte(credential("8192", 24, 64)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := ParseCredential(data); err == nil {
			require.Len(t, c.Salted, saltedLength)
			require.NotEmpty(t, c.Salt)
		}
	})
}

// frame is a response with this header.
func frame(size, correlation int32, rest string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(size))
	return append(binary.BigEndian.AppendUint32(b, uint32(correlation)), rest...)
}

func TestResponses(t *testing.T) {
	for _, tt := range []struct {
		name     string
		data     []byte
		flexible bool
		want     string
		problem  string
	}{
		{"an old one", frame(7, 3, "abc"), false, "abc", ""},
		{"a flexible one", frame(8, 3, "\x00abc"), true, "abc", ""},
		{"nothing", nil, false, "", "EOF"},
		{"cut off", frame(8, 3, "ab"), false, "", "unexpected EOF"},
		{"to another request", frame(7, 4, "abc"), false, "", "the answer is to request 4, and this was 3"},
		{"too large", frame(maxResponse+5, 3, ""), false, "", "an answer of 16777217 bytes"},
		{"smaller than its header", frame(3, 3, ""), false, "", "an answer of -1 bytes"},
		{"below zero", frame(-1, 3, ""), false, "", "an answer of -5 bytes"},
		{"unknown fields in its header", frame(8, 3, "\x01abc"), true, "", "fields that nobody defined"},
		{"flexible and empty", frame(4, 3, ""), true, "", "fields that nobody defined"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readResponse(bytes.NewReader(tt.data), 3, tt.flexible)
			if tt.problem != "" {
				require.ErrorContains(t, err, tt.problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got))
		})
	}
}

// FuzzResponse: whatever answers, no panic, and no more than what came is kept.
func FuzzResponse(f *testing.F) {
	f.Add(frame(7, 1, "abc"), false)
	f.Add(frame(8, 1, "\x00abc"), true)
	f.Fuzz(func(t *testing.T, data []byte, flexible bool) {
		body, err := readResponse(bytes.NewReader(data), 1, flexible)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(body), len(data))
		for _, q := range []kmsg.Request{kmsg.NewPtrDescribeClusterRequest(), kmsg.NewPtrDescribeACLsRequest(), kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()} {
			q.SetVersion(q.MaxVersion())
			_ = q.ResponseKind().ReadFrom(body)
		}
	})
}

func TestRules(t *testing.T) {
	rules, err := Rules([]kafka.User{
		{Name: "b", ACL: []kafka.ACL{{Topic: "x.", Prefix: true, Operations: []string{"read", "write", "read"}}, {Cluster: true, Operations: []string{"describe"}}}},
		{Name: "a", ACL: []kafka.ACL{{TransactionalID: "t", Operations: []string{"all"}}, {Group: "*", Operations: []string{"read"}}}},
		{Name: "c"},
	})
	require.NoError(t, err)
	literal, allow := kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLPermissionTypeAllow
	require.Equal(t, []Rule{
		{kmsg.ACLResourceTypeGroup, literal, "*", "User:a", "*", kmsg.ACLOperationRead, allow},
		{kmsg.ACLResourceTypeTransactionalId, literal, "t", "User:a", "*", kmsg.ACLOperationAll, allow},
		{kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypePrefixed, "x.", "User:b", "*", kmsg.ACLOperationRead, allow},
		{kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypePrefixed, "x.", "User:b", "*", kmsg.ACLOperationWrite, allow},
		{kmsg.ACLResourceTypeCluster, literal, "kafka-cluster", "User:b", "*", kmsg.ACLOperationDescribe, allow},
	}, rules)
	_, err = Rules([]kafka.User{{Name: "a", ACL: []kafka.ACL{{Topic: "t", Operations: []string{"cluster-action"}}}}})
	require.EqualError(t, err, `kafka.yaml: the operation "cluster-action" of the user a is unknown`)
	_, err = Rules([]kafka.User{{Name: "a", ACL: []kafka.ACL{{Operations: []string{"read"}}}}})
	require.EqualError(t, err, `kafka.yaml: an entry of the user a is about nothing`)
}

func TestWhatIsNewAndWhatIsGone(t *testing.T) {
	a, b, c := Rule{Name: "a"}, Rule{Name: "b"}, Rule{Name: "c"}
	require.Equal(t, []Rule{a}, difference([]Rule{a, b}, []Rule{b, c}))
	require.Empty(t, difference(nil, []Rule{a}))
}

// Another incarnation, node or cluster is another directory; none looks like an option.
func TestDirectoryIDs(t *testing.T) {
	seen := map[string]bool{}
	for _, cluster := range []string{"c1", "c2"} {
		for _, node := range []string{"kafka-01", "kafka-02"} {
			for i := range 200 {
				id := DirectoryID(cluster, node, strings.Repeat("x", i))
				require.Equal(t, id, DirectoryID(cluster, node, strings.Repeat("x", i)))
				require.Regexp(t, `^[A-Za-z0-9_][A-Za-z0-9_-]{21}$`, id)
				require.False(t, seen[id])
				seen[id] = true
			}
		}
	}
}

// place is a storage in a temporary directory, with one data disk that is there and one that is away.
func place(t *testing.T) *Storage {
	dir := t.TempDir()
	s := &Storage{Metadata: filepath.Join(dir, "metadata"), Cluster: "4L6g3nShT-eMCtK--X86sw", Node: 1065704995}
	s.Disks = []string{filepath.Join(dir, "disks/1/log"), filepath.Join(dir, "disks/2/log")}
	require.NoError(t, os.MkdirAll(s.Disks[0], 0o700))
	return s
}

func write(t *testing.T, path, text string) {
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestForeignDirectoriesAreRefusedAndLeft(t *testing.T) {
	s := place(t)
	require.NoError(t, s.Check(), "nothing is there")
	file := filepath.Join(s.Disks[0], metaFile)
	write(t, file, meta)
	require.NoError(t, s.Check(), "its own")
	for name, tt := range map[string]struct{ text, want string }{
		"another cluster": {strings.Replace(meta, "4L6g", "9Zq8", 1), `/disks/1/log holds data of another Kafka cluster ("9Zq83nShT-eMCtK--X86sw", and this one is "4L6g3nShT-eMCtK--X86sw")`},
		"another node":    {strings.Replace(meta, "1065704995", "17", 1), "/disks/1/log holds data of another node of this Kafka (node.id 17, and this one is 1065704995)"},
		"nonsense":        {"\x00\x00", "is not KEY=VALUE"},
		"a huge file":     {strings.Repeat("#", maxMeta+1), "read whose"},
	} {
		write(t, file, tt.text)
		require.ErrorContains(t, s.Check(), tt.want, name)
		left, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, tt.text, string(left), name)
	}
}

func TestFormattingTakesWhatIsThere(t *testing.T) {
	s := place(t)
	dir := filepath.Dir(s.Metadata)
	properties, scratch := filepath.Join(dir, "server.properties"), filepath.Join(dir, "format.properties")
	write(t, properties, "node.id=1065704995\nlog.dirs="+strings.Join(s.Disks, ",")+"\nx=y\n")
	var asked []string
	tool := func(_ context.Context, arguments []string) error {
		asked = arguments
		data, err := os.ReadFile(scratch)
		require.NoError(t, err)
		require.Equal(t, "node.id=1065704995\nlog.dirs="+s.Disks[0]+"\nx=y\n", string(data), "the disk that is away is left out")
		for _, dir := range []string{s.Metadata, s.Disks[0]} {
			write(t, filepath.Join(dir, metaFile), meta)
		}
		return nil
	}
	left, err := s.Unformatted()
	require.NoError(t, err)
	require.Equal(t, []string{s.Metadata, s.Disks[0]}, left)
	require.NoError(t, s.Format(context.Background(), nil, properties, scratch, tool))
	require.Equal(t, []string{"format", "--cluster-id", s.Cluster, "--config", scratch, "--ignore-formatted", "--no-initial-controllers"}, asked)
	require.NoFileExists(t, scratch)
	empty, err := s.Empty()
	require.NoError(t, err)
	require.False(t, empty)

	voters := []Voter{{2, "10.0.0.2:9094", "BBBBBBBBBBBBBBBBBBBBBB"}, {1, "[fd77::1]:9094", "AAAAAAAAAAAAAAAAAAAAAA"}}
	require.NoError(t, s.Format(context.Background(), voters, properties, scratch, tool))
	require.Equal(t, []string{"--initial-controllers", "1@[fd77::1]:9094:AAAAAAAAAAAAAAAAAAAAAA,2@10.0.0.2:9094:BBBBBBBBBBBBBBBBBBBBBB"}, asked[len(asked)-2:])

	require.NoError(t, s.Clear())
	empty, err = s.Empty()
	require.NoError(t, err)
	require.True(t, empty)
	require.ErrorContains(t, s.Format(context.Background(), nil, properties, scratch, func(context.Context, []string) error { return errors.New("no") }), "format the storage of Kafka: no")
	require.ErrorContains(t, s.Format(context.Background(), nil, properties, scratch, func(context.Context, []string) error { return nil }), "is not formatted although Kafka's tool says so")
	write(t, properties, "node.id=1\n")
	require.ErrorContains(t, s.Format(context.Background(), nil, properties, scratch, tool), "has no log.dirs")
}

func TestWhenAllDisksAreAway(t *testing.T) {
	s := place(t)
	s.Disks = s.Disks[1:]
	dir := filepath.Dir(s.Metadata)
	write(t, filepath.Join(dir, "p"), "log.dirs="+s.Disks[0]+"\n")
	require.NoError(t, limitDirectories(filepath.Join(dir, "p"), filepath.Join(dir, "q"), s.directories()))
	data, err := os.ReadFile(filepath.Join(dir, "q"))
	require.NoError(t, err)
	require.Equal(t, "log.dirs="+s.Metadata+"\n", string(data), "only the metadata is formatted")
}

func TestClearLeavesWhatKafkaWrote(t *testing.T) {
	s := place(t)
	log := filepath.Join(s.Metadata, "__cluster_metadata-0/00000000000000000000.log")
	write(t, log, "records")
	write(t, filepath.Join(s.Metadata, metaFile), meta)
	require.ErrorContains(t, s.Clear(), "holds a metadata log although its formatting was never finished")
	require.FileExists(t, log)
	require.FileExists(t, filepath.Join(s.Metadata, metaFile))
}

func TestAWaitSaysForWhatAndEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var said []string
	err := Await(ctx, "Kafka to serve", func(s string) { said = append(said, s) }, func(context.Context) error { cancel(); return errors.New("not yet") })
	require.EqualError(t, err, "waiting for Kafka to serve: context canceled: not yet")
	require.Equal(t, []string{"waiting for Kafka to serve: not yet"}, said)
	require.NoError(t, Await(context.Background(), "x", nil, func(context.Context) error { return nil }))
}

func TestTheArchiveOfOtherJarsIsRemoved(t *testing.T) {
	dir, jar := t.TempDir(), filepath.Join(t.TempDir(), "a.jar")
	write(t, jar, "classes")
	first, err := Archive(filepath.Join(dir, "missing"), []string{jar}, []byte("-Xmx1g"))
	require.NoError(t, err)
	name := func(options string) string {
		path, err := Archive(dir, []string{jar}, []byte(options))
		require.NoError(t, err)
		return path
	}
	path := name("-Xmx1g")
	require.Equal(t, filepath.Base(first), filepath.Base(path))
	require.Regexp(t, `/kafka-[0-9a-f]{16}\.jsa$`, path)
	other := filepath.Join(dir, "other.txt")
	write(t, other, "not an archive")
	for what, tt := range map[string]struct {
		content string
		change  func() string
		stays   bool
	}{
		"as it was":            {"\xf0\x0b\xab\xa2...", func() string { return name("-Xmx1g") }, true},
		"other options":        {"\xf0\x0b\xab\xa2...", func() string { return name("-Xmx2g") }, false},
		"without a header":     {"\x00\x00\x00\x00...", func() string { return name("-Xmx1g") }, false},
		"cut off":              {"\xf0", func() string { return name("-Xmx1g") }, false},
		"another jar's length": {"\xf0\x0b\xab\xa2...", func() string { write(t, jar, "more classes"); return name("-Xmx1g") }, false},
	} {
		write(t, jar, "classes")
		require.NoError(t, os.Chtimes(jar, time.Unix(1, 0), time.Unix(1, 0)))
		path = name("-Xmx1g")
		write(t, path, tt.content)
		write(t, path+".temp", "x")
		tt.change()
		_, err := os.Stat(path)
		require.Equal(t, tt.stays, err == nil, what)
		require.NoFileExists(t, path+".temp", what)
	}
	require.FileExists(t, other)
	_, err = Archive(dir, []string{jar + "x"}, nil)
	require.ErrorContains(t, err, "name the archive of classes: stat")
}
