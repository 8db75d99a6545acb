// What every page does once it is there.
import { followPage } from "./live.js";
import { tellAges } from "./ages.js";
import { listenToKeys } from "./keys.js";
import { defineNodeMap } from "./nodemap.js";

defineNodeMap();
tellAges();
setInterval(tellAges, 1000);
listenToKeys();
followPage();
