package tidy

// module is this module's path.
const module = "github.com/setpointd/setpoint"

// layer says what the packages of one place may import of this module. A path that ends in /... stands for the packages at and below it.
// Each package belongs to the first layer that names it, and always may import what lies below its own directory.
type layer struct {
	packages []string
	imports  []string
}

// layers are the arrows of docs/ARCHITECTURE.md, which point down only: cmd, shells, engine, decisions, vocabulary. A new package is added
// here; one that needs an arrow pointing up belongs elsewhere.
var layers = []layer{
	// The vocabulary.
	{packages: []string{"sdk/cluster"}},

	// The SDK is closed: it may become a module of its own.
	{packages: []string{"sdk/proto/..."}, imports: []string{"sdk/proto/..."}},
	{packages: []string{"sdk/..."}, imports: []string{"sdk/..."}},

	// Plugins are like anybody's.
	{packages: []string{"plugins/..."}, imports: []string{"sdk/..."}},

	// Messages of agents and API.
	{packages: []string{"proto/..."}, imports: []string{"proto/...", "sdk/proto/..."}},

	// Decisions.
	{packages: []string{"core/monitor", "core/reconcile", "core/place"}, imports: []string{"sdk/cluster"}},

	// What several need that has nothing to do with any of them.
	{packages: []string{"core/internal/texts", "core/internal/outward"}},

	// The owner of the state.
	{
		packages: []string{"core/engine"},
		imports:  []string{"core/internal/texts", "core/monitor", "core/reconcile", "core/place", "sdk/cluster"},
	},

	// Shells. None imports another.
	{packages: []string{"core/store"}, imports: []string{"sdk/cluster", "sdk/wire", "sdk/proto/..."}},
	{
		packages: []string{"core/store/..."},
		imports:  []string{"core/internal/texts", "core/store/...", "sdk/cluster", "sdk/wire", "sdk/proto/..."},
	},
	{packages: []string{"core/cgroup"}},
	{packages: []string{"core/near"}},
	{packages: []string{"core/pluginhost/..."}, imports: []string{"core/cgroup", "core/engine", "sdk/..."}},
	{
		packages: []string{"core/dispatch"},
		imports:  []string{"core/engine", "core/pki", "core/secret", "proto/...", "sdk/cluster", "sdk/wire", "sdk/proto/..."},
	},
	{
		packages: []string{"core/api"},
		imports:  []string{"core/engine", "core/pki", "core/audit", "core/near", "core/secret", "proto/...", "sdk/cluster", "sdk/wire", "sdk/proto/..."},
	},
	{packages: []string{"core/notify"}, imports: []string{"core/engine", "core/internal/outward", "sdk/cluster"}},
	{packages: []string{"core/metrics"}, imports: []string{"core/engine", "sdk/cluster"}},
	{packages: []string{"core/trace/..."}, imports: []string{"core/engine", "core/internal/outward", "sdk/cluster"}},
	{packages: []string{"core/dashboard"}, imports: []string{"core/engine", "core/pki", "proto/...", "sdk/cluster"}},
	{packages: []string{"core/hcltext"}, imports: []string{"sdk/cluster"}},
	{packages: []string{"core/config"}, imports: []string{"core/hcltext", "sdk/..."}},
	{packages: []string{"core/jobfile"}, imports: []string{"core/hcltext", "sdk/..."}},
	{packages: []string{"core/compose"}, imports: []string{"core/hcltext", "core/jobfile", "sdk/cluster"}},
	{packages: []string{"core/pki"}},
	{packages: []string{"core/audit"}},
	{packages: []string{"core/secret"}, imports: []string{"sdk/cluster"}},

	// The simulator runs the real engine and the real plugins' logic.
	{
		packages: []string{"core/sim/..."},
		imports:  []string{"core/engine", "core/monitor", "core/reconcile", "core/place", "core/store/...", "plugins/...", "sdk/..."},
	},

	// Agents know the server by its messages only.
	{packages: []string{"agent/driver"}, imports: []string{"sdk/cluster"}},
	{packages: []string{"agent/driver/..."}, imports: []string{"agent/driver", "core/cgroup", "sdk/cluster"}},
	{
		packages: []string{"agent/..."},
		imports:  []string{"agent/...", "core/pki", "proto/...", "sdk/cluster", "sdk/wire", "sdk/proto/..."},
	},

	// Clients of the API.
	{
		packages: []string{"client/..."},
		imports:  []string{"core/pki", "proto/...", "sdk/cluster", "sdk/wire", "sdk/proto/..."},
	},

	// Examples that are no modules of their own. What `plugin new` copies into a plugin comes from there.
	{packages: []string{"examples/..."}, imports: []string{"sdk/..."}},

	// The binary puts everything together.
	{
		packages: []string{"cmd/..."},
		imports:  []string{"agent/...", "client/...", "cmd/...", "core/...", "examples/plugins/python", "plugins/...", "proto/...", "sdk/..."},
	},

	// Tests of the source and of the binary.
	{packages: []string{"core/internal/tidy"}},
	{packages: []string{"test/..."}, imports: []string{"..."}},
}

// closed are the places whose tests, too, import of this module only what the layer allows.
var closed = []string{"sdk/...", "plugins/..."}

// homes says which packages may import a module of others. A module without a home is not imported: a dependency earns its place.
var homes = map[string][]string{
	// Compose files.
	"github.com/compose-spec/compose-go":    {"core/compose"},
	"github.com/santhosh-tekuri/jsonschema": {"core/compose"},
	"github.com/sirupsen/logrus":            {"core/compose"},
	"go.yaml.in/yaml":                       {"core/compose", "cmd/setpoint/internal/view"},

	"github.com/containerd/errdefs":       {"agent/driver/docker"},
	"github.com/moby/moby/api":            {"agent/driver/docker"},
	"github.com/moby/moby/client":         {"agent/driver/docker"},
	"connectrpc.com/connect":              {"proto/...", "core/api", "core/dashboard", "core/dispatch", "agent/...", "client/...", "cmd/...", "test/..."},
	"github.com/hashicorp/go-hclog":       {"sdk/...", "plugins/...", "core/...", "agent/...", "client/...", "cmd/...", "test/apiserver", "test/internal/faultplugin"},
	"github.com/hashicorp/go-plugin":      {"sdk", "sdk/sdktest", "core/pluginhost/...", "test/internal/faultplugin"},
	"github.com/landlock-lsm/go-landlock": {"core/pluginhost/runner"},
	"github.com/prometheus/client_golang": {"core/metrics"},
	"github.com/hashicorp/hcl/v2":         {"core/hcltext", "core/config", "core/jobfile", "core/compose", "sdk/..."},
	"github.com/zclconf/go-cty":           {"core/hcltext", "core/config", "core/jobfile", "sdk/..."},
	"charm.land/bubbletea":                {"cmd/setpoint/internal/top"},
	"github.com/spf13/cobra":              {"cmd/..."},
	"github.com/spf13/pflag":              {"cmd/..."},
	"github.com/tidwall/btree":            {"core/engine"},
	"go.etcd.io/bbolt":                    {"core/store/bolt", "agent/..."},
	"go.opentelemetry.io/otel":            {"core/trace"},
	"go.opentelemetry.io/proto/slim/otlp": {"core/trace/..."},
	"golang.org/x/net":                    {"core/...", "agent/...", "client/...", "cmd/..."},
	"golang.org/x/sync":                   {"core/...", "agent/...", "client/...", "cmd/..."},
	"golang.org/x/sys":                    {"sdk", "core/cgroup", "core/notify", "core/pluginhost/...", "core/store/bolt", "agent/...", "cmd/...", "test/internal/bench"},
	"golang.org/x/term":                   {"cmd/..."},
	"golang.org/x/text":                   {"core/jobfile", "core/compose", "cmd/setpoint/internal/console"},
	"google.golang.org/genproto":          {"sdk/...", "core/pluginhost/..."},
	"google.golang.org/grpc":              {"sdk/...", "core/pluginhost/...", "cmd/...", "test/internal/faultplugin"},
	"google.golang.org/protobuf":          {"sdk/...", "proto/...", "core/store/...", "core/pluginhost/...", "core/dispatch", "core/api", "core/dashboard", "core/trace/...", "agent/...", "client/...", "cmd/...", "test/internal/faultplugin"},
	"pgregory.net/rapid":                  {"core/store/storetest", "core/sim/...", "sdk/sdktest"},
	"github.com/google/go-cmp":            {"core/store/storetest", "sdk/sdktest"},
	"github.com/chromedp/cdproto":         {},
	"github.com/chromedp/chromedp":        {},
	"go.uber.org/goleak":                  {},
	"github.com/rogpeppe/go-internal":     {"cmd/setpoint"},
	"golang.org/x/tools":                  {},
}

// pure are the packages that decide: same input, same bytes out.
var pure = []string{"sdk/cluster", "core/monitor", "core/reconcile", "core/place"}

// environment are the packages that may read the environment; all others take what they need as values.
var environment = []string{"core/config", "cmd/...", "sdk", "core/pluginhost/...", "agent/driver/process", "test/..."}

// Sizes that keep a file to one concept and a function to one thought.
const (
	maxFileLines     = 600
	maxFunctionLines = 70
)

// maxPattern is how many instructions a regular expression may have.
const maxPattern = 100
