package pluginhost

import (
	"slices"
	"strings"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// description is what a plugin said it is, checked.
type description struct {
	name       string
	version    string
	sdk        string
	protocol   uint32
	interfaces []string // known ones, sorted
	filter     bool
	drainer    bool
	jobTypes   []string
	watches    cluster.FieldMask
	config     *pluginv1.Schema
	job        *pluginv1.Schema
	strange    []string // words of interfaces that this host does not know
}

// protocolMinor is the newest minor version of the protocol that this host speaks.
const protocolMinor = 1

const maxJobTypes = 64

var fieldOf = map[string]cluster.NodeField{
	string(sdk.WatchLabels):       cluster.FieldLabels,
	string(sdk.WatchAttributes):   cluster.FieldAttributes,
	string(sdk.WatchPlatform):     cluster.FieldPlatform,
	string(sdk.WatchCapacity):     cluster.FieldCapacity,
	string(sdk.WatchAvailability): cluster.FieldAvailability,
	string(sdk.WatchState):        cluster.FieldState,
}

// describe checks what a plugin says it is. The error is a *failure; what is returned beside it is for people to read.
func describe(resp *pluginv1.DescribeResponse) (*description, error) {
	d := &description{
		name: clean(resp.Name), version: clean(resp.Version), sdk: clean(resp.Sdk), protocol: resp.Protocol, config: resp.Config, job: resp.Job,
	}
	for _, name := range resp.Interfaces {
		switch name {
		case sdk.InterfaceFilter:
			d.filter = true
		case sdk.InterfaceDrainer:
			d.drainer = true
		case sdk.InterfaceJobType:
		default:
			d.strange = append(d.strange, clean(name))
			continue
		}
		d.interfaces = append(d.interfaces, name)
	}
	slices.Sort(d.interfaces)
	d.interfaces = slices.Compact(d.interfaces)
	if len(d.interfaces) == 0 {
		return d, d.useless()
	}
	if err := d.takeJobTypes(resp.JobTypes); err != nil {
		return d, err
	}
	for _, w := range resp.Watches {
		field, ok := fieldOf[w]
		if !ok {
			return d, invalid("it watches %q, a node field that this host does not know (it knows %s); %s", clean(w), strings.Join(sortedKeys(fieldOf), ", "), upgradeHost)
		}
		d.watches |= cluster.Mask(field)
	}
	return d, nil
}

// What to do about a plugin that is older or newer than the host.
const (
	upgradePlugin = "upgrade the plugin, or rebuild it with the current SDK"
	upgradeHost   = "upgrade the host, or install an older release of the plugin"
)

// useless says that there is nothing for which the host could use the plugin.
func (d *description) useless() *failure {
	known := strings.Join([]string{sdk.InterfaceFilter, sdk.InterfaceDrainer, sdk.InterfaceJobType}, ", ")
	if len(d.strange) == 0 {
		return invalid("it describes no interface (this host knows %s); %s", known, upgradePlugin)
	}
	return invalid("it describes no interface that this host knows, but %s (this host knows %s); %s", strings.Join(d.strange, ", "), known, upgradeHost)
}

func (d *description) takeJobTypes(types []string) error {
	serves := slices.Contains(d.interfaces, sdk.InterfaceJobType)
	switch {
	case serves != (len(types) > 0):
		return invalid("it describes %d job types and the interfaces %s, which do not go together", len(types), strings.Join(d.interfaces, ", "))
	case len(types) > maxJobTypes:
		return invalid("it describes %d job types; the limit is %d", len(types), maxJobTypes)
	}
	for _, t := range types {
		switch {
		case t == cluster.TypeReplicated || t == cluster.TypeBatch:
			return invalid("it claims the job type %q, which is the core's own", t)
		case cluster.ValidateName(t) != nil:
			return invalid("job type: %v", cluster.ValidateName(t))
		}
	}
	d.jobTypes = slices.Compact(slices.Sorted(slices.Values(types)))
	return nil
}

func (d *description) serves(jobType string) bool { return slices.Contains(d.jobTypes, jobType) }
