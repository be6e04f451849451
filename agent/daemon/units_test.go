package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/cluster/spec"
	"spore/services"
	"spore/services/mqtt"
)

func TestTheUnitsOfARoleThatIsUp(t *testing.T) {
	l, err := services.With([]services.Definition{&role.Definition{Name: "copy", Units: []string{"copy.timer", "gateway.service", "ask@a.socket"}}})
	require.NoError(t, err)
	c := &facts.Cluster{Roles: l.Facts(), Services: spec.Services{&mqtt.Settings{}}}
	require.Equal(t, []string{"copy.target", "copy.timer", "gateway.service", "ask@a.socket"}, unitsOf(c, "copy"), "a timer starts copy.service now and then")
	require.Equal(t, []string{"mqtt.target", "mosquitto.service"}, unitsOf(c, "mqtt-broker"))
}
