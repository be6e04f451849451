package node

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/services/mqtt"
	"spore/services/rendering"
)

func testInput() rendering.Input {
	secrets := map[string]string{"mqtt-cert": "cert", "mqtt-key": "key", "mqtt-sensor": "s3nsor\n", "mqtt-mute": "mute"}
	return rendering.Input{
		Cluster: &facts.Cluster{ID: "6f1c2f0e-8a52-4a53-9d8c-1f6a0f3b7c11", Services: spec.Services{
			&mqtt.Settings{
				TLS: mqtt.TLS{Certificate: spec.SecretRef{SecretRef: "mqtt-cert"}, Key: spec.SecretRef{SecretRef: "mqtt-key"}},
				Users: []mqtt.User{
					{Name: "sensor", Password: spec.SecretRef{SecretRef: "mqtt-sensor"}, ACL: []mqtt.ACL{{Topic: "plant/+/temperature", Access: "write"}, {Topic: "plant/secret/#", Access: "deny"}}},
					{Name: "mute", Password: spec.SecretRef{SecretRef: "mqtt-mute"}},
				},
			},
		}},
		Dir: "/run/x",
		Secret: func(ref string) ([]byte, error) {
			s, ok := secrets[ref]
			if !ok {
				return nil, fmt.Errorf("secret %s is not in the bundle", ref)
			}
			return []byte(s), nil
		},
		SecretPath: func(ref string) string { return "/run/credentials/x.service/secret_" + ref },
	}
}

func TestMosquitto(t *testing.T) {
	files, err := mosquitto(testInput())
	require.NoError(t, err)
	conf := string(files["mosquitto.conf"].Data)
	require.Contains(t, conf, "listener 8883\ncertfile /run/credentials/x.service/secret_mqtt-cert\nkeyfile /run/credentials/x.service/secret_mqtt-key\n")
	require.Contains(t, conf, "allow_anonymous false\npassword_file /run/x/passwords\nacl_file /run/x/acl\n")
	require.Contains(t, conf, "listener 0 /run/x/metrics.sock\nmax_connections 4\nlistener 8883\n")
	require.Equal(t, 2, strings.Count(conf, "listener"), "there is no listener of the network without TLS")
	require.Equal(t, "user sensor\ntopic write plant/+/temperature\ntopic deny plant/secret/#\n\nuser mute\n\n"+
		"user _spore-metrics\ntopic read $SYS/#\n", string(files["acl"].Data))
	password := string(files["metrics-password"].Data)
	require.Len(t, password, 43, "256 bits")
	require.NotContains(t, string(files["passwords"].Data), password)
	require.Contains(t, string(files["passwords"].Data), "\n_spore-metrics:$7$101$")
	require.NotContains(t, string(files["passwords"].Data), "s3nsor")
	for name, f := range files {
		require.Equal(t, os.FileMode(0o600), f.Mode, name)
	}
}

func TestThePasswordOfTheCollectorIsTheBrokersOwn(t *testing.T) {
	of := func(change func(*rendering.Input)) string {
		in := testInput()
		change(&in)
		files, err := mosquitto(in)
		require.NoError(t, err)
		return string(files["metrics-password"].Data)
	}
	first := of(func(*rendering.Input) {})
	require.Equal(t, first, of(func(*rendering.Input) {}), "rendering again gives the same")
	require.NotEqual(t, first, of(func(in *rendering.Input) { in.Cluster.ID = "c2" }))
	require.NotEqual(t, first, of(func(in *rendering.Input) {
		before := in.Secret
		in.Secret = func(ref string) ([]byte, error) {
			if ref == "mqtt-key" {
				return []byte("another key"), nil
			}
			return before(ref)
		}
	}))
}

func TestTheSaltDiffersByUserAndCluster(t *testing.T) {
	a := salt("c1", "u1", []byte("p"))
	require.Len(t, a, mosquittoSalt)
	require.NotEqual(t, a, salt("c1", "u2", []byte("p")))
	require.NotEqual(t, a, salt("c2", "u1", []byte("p")))
}

func TestHashIsMosquittoPasswdsOwn(t *testing.T) {
	// mosquitto_passwd -b of 2.0.11 with the password "secret".
	const want = "$7$101$MaXPNs/P6QOJ2+Cs$J6ii1nNeZxg0nRY45wCvudEuKeN4gRUKtMwPqHqj4PUa90HyzqKqhnF0Jl+k+eNgRYtB7dA2W3JoQZKuPMZnmQ=="
	salt, err := base64.StdEncoding.DecodeString("MaXPNs/P6QOJ2+Cs")
	require.NoError(t, err)
	hash, err := mosquittoHash([]byte("secret"), salt)
	require.NoError(t, err)
	require.Equal(t, want, hash)
}

func TestMosquittoRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(*rendering.Input)
	}{
		{"a cluster without mqtt", "add services/mqtt.yaml", func(in *rendering.Input) { in.Cluster.Services.Remove("mqtt") }},
		{"a missing certificate", "TLS listener: secret nope is not in the bundle", func(in *rendering.Input) { mqtt.Of(in.Cluster.Services).TLS.Certificate.SecretRef = "nope" }},
		{"a missing key", "TLS listener: secret nope is not in the bundle", func(in *rendering.Input) { mqtt.Of(in.Cluster.Services).TLS.Key.SecretRef = "nope" }},
		{"a missing password", "password of user sensor: secret nope is not in the bundle", func(in *rendering.Input) { mqtt.Of(in.Cluster.Services).Users[0].Password.SecretRef = "nope" }},
		{"an empty password", "secret mqtt-sensor is empty", func(in *rendering.Input) { in.Secret = func(string) ([]byte, error) { return []byte("\n"), nil } }},
		{"a user with a line break", "cannot stand in a line", func(in *rendering.Input) { mqtt.Of(in.Cluster.Services).Users[0].Name = "a\nuser b" }},
		{"a user with a colon", "a colon or a leading #", func(in *rendering.Input) { mqtt.Of(in.Cluster.Services).Users[0].Name = "a:b" }},
		{"a user that looks like a comment", "a colon or a leading #", func(in *rendering.Input) { mqtt.Of(in.Cluster.Services).Users[0].Name = "#a" }},
		{"a user with the name of the collector", "the collector of metrics has this name", func(in *rendering.Input) { mqtt.Of(in.Cluster.Services).Users[0].Name = "_spore-metrics" }},
		{"a topic with a line break", "cannot stand in a line", func(in *rendering.Input) { mqtt.Of(in.Cluster.Services).Users[0].ACL[0].Topic = "a\ntopic #" }},
		{"a topic with a space at its end", "begins or ends with a space", func(in *rendering.Input) { mqtt.Of(in.Cluster.Services).Users[0].ACL[0].Topic = "a " }},
		{"an empty topic", "a topic is empty", func(in *rendering.Input) { mqtt.Of(in.Cluster.Services).Users[0].ACL[0].Topic = "" }},
		{"an unknown access", `access is "own", want read, write, readwrite or deny`, func(in *rendering.Input) { mqtt.Of(in.Cluster.Services).Users[0].ACL[0].Access = "own" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := testInput()
			tt.change(&in)
			_, err := mosquitto(in)
			require.ErrorContains(t, err, tt.want)
		})
	}
}
