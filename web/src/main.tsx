import { render } from "preact";
import { App } from "./app";
import "./style/tokens.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/pages.css";
import { applyTheme } from "./theme";

applyTheme();
render(<App />, document.getElementById("app")!);
