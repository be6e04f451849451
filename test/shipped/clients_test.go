//go:build e2e

package shipped

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"spore/test/client"
)

// kafka is what a user of Kafka connects with: the broker's advertised address, through the proxy.
func (c *cluster) kafka(user string) client.KafkaOptions {
	c.t.Helper()
	return client.KafkaOptions{
		Seeds: []string{"kafka-01." + c.domain + ":9092"}, Roots: c.authority("kafka"), Dial: c.door.DialContext,
		User: user, Password: c.secret("kafka-password-" + user),
	}
}

// exported is the folder of what spore pki export has written.
func (c *cluster) exported(name string) []byte {
	c.t.Helper()
	path := filepath.Join(c.dir, "client", name)
	if _, err := os.Stat(path); err != nil {
		c.must("bin/spore pki export configs --name root --name kafka --name mqtt-password-operator " +
			"--name kafka-password-admin --name kafka-password-sensor --name kafka-password-historian -o client")
	}
	data, err := os.ReadFile(path)
	require.NoError(c.t, err)
	return data
}

func (c *cluster) secret(name string) string { return strings.TrimSpace(string(c.exported(name))) }

func (c *cluster) authority(name string) *x509.CertPool {
	pool := x509.NewCertPool()
	require.True(c.t, pool.AppendCertsFromPEM(c.exported(name+".crt")))
	return pool
}

func (c *cluster) streams(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), step)
	defer cancel()
	admin, err := client.NewKafka(c.kafka("admin"))
	require.NoError(t, err)
	defer admin.Close()
	_, err = kadm.NewClient(admin).CreateTopic(ctx, 3, 1, nil, topic)
	require.NoError(t, err)
	ledger, err := client.StartLedger(c.kafka("sensor"), topic, 0)
	require.NoError(t, err)
	c.within(step, "a hundred records are acknowledged", func() error {
		n, err := ledger.Acknowledged()
		if err == nil && n < 100 {
			err = fmt.Errorf("it is %d", n)
		}
		return err
	})
	acknowledged := ledger.Stop()
	c.reads(acknowledged)
	c.reached("Kafka took and gave records")
}

// reads holds what the historian reads against what the sensor was told.
func (c *cluster) reads(acknowledged map[int]bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), step)
	defer cancel()
	have, err := client.ReadLedger(ctx, c.kafka("historian"), topic)
	require.NoError(c.t, err)
	for number := range acknowledged {
		require.Positive(c.t, have[number], "record %d of %d", number, len(acknowledged))
	}
}

// mqtt connects to the broker by its name.
func (c *cluster) mqtt() *client.MQTT {
	c.t.Helper()
	m, err := client.DialMQTT(client.MQTTOptions{
		Address: c.machines.Address("edge-01", "8883/tcp"), ServerName: "edge-01." + c.domain, Roots: c.authority("root"),
		ID: "shipped", User: "operator", Password: c.secret("mqtt-password-operator"),
	})
	require.NoError(c.t, err)
	return m
}

func (c *cluster) answers(t *testing.T) {
	m := c.mqtt()
	defer m.Close()
	require.NoError(t, m.Publish("sensors/hall", "21.5", true))
	require.NoError(t, m.Subscribe("sensors/#"))
	got, err := m.Await("sensors/hall", step)
	require.NoError(t, err)
	require.Equal(t, "21.5", got.Payload)
	c.resolves()
	c.reached("MQTT and DNS answered")
}

func (c *cluster) resolves() {
	c.t.Helper()
	a, err := client.Ask("udp", c.machines.Address("edge-01", "53/udp"), "master-01."+c.domain, "A")
	require.NoError(c.t, err)
	require.Equal(c.t, []string{"A 10.77.0.11"}, a.Records)
}

// writers write until stop, which returns what was acknowledged.
func (c *cluster) writers() (stop func() (objects []string, lines int, records map[int]bool)) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var objects []string
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("written-%d", i)
			create := "kubectl --kubeconfig rehearsal.kubeconfig create configmap " + name + " --from-literal=n=1"
			if c.command(ctx, create).Run() == nil {
				objects = append(objects, name)
			}
		}
	})
	var printed strings.Builder
	appender := c.command(ctx, "kubectl --kubeconfig rehearsal.kubeconfig exec keeper -- /hello append /data/lines")
	appender.Stdout = &printed
	require.NoError(c.t, appender.Start())
	all.Go(func() { _ = appender.Wait() }) // The power cut ends it.
	ledger, err := client.StartLedger(c.kafka("sensor"), topic, 1_000_000)
	require.NoError(c.t, err)
	return func() ([]string, int, map[int]bool) {
		cancel()
		records := ledger.Stop()
		all.Wait()
		return objects, strings.Count(printed.String(), "\n"), records
	}
}
