// The looks of report.html, and the few lines that let a finger or a mouse read values off a chart.
#pragma once

namespace weft {

inline constexpr const char* kReportStyle = R"css(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#1a2029;--soft:#667085;--line:#e4e7ec;--s0:#2563eb;--s1:#e8590c;--s2:#0f9d6b;--good:#0f9d6b}
@media(prefers-color-scheme:dark){:root{--page:#0e1116;--card:#171b22;--ink:#e6e9ef;--soft:#98a2b3;--line:#2a303a;--s0:#6ea8fe;--s1:#ff9f5a;--s2:#4fd1a1;--good:#4fd1a1}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 16px 56px}
h1{font-size:1.55rem;line-height:1.25;margin:0}
h2{font-size:1.05rem;margin:34px 0 12px}
p.sub{color:var(--soft);margin:4px 0 0;overflow-wrap:anywhere}
.state{display:inline-block;font-size:.8rem;font-weight:600;padding:2px 10px;border-radius:99px;border:1px solid var(--line);color:var(--soft);margin-left:8px;vertical-align:.2em}
.state.done{color:var(--good);border-color:currentColor}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin-top:22px}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:12px}
.tile{padding:12px 14px;flex:1 1 132px}
.tile b{display:block;font-size:1.4rem;font-weight:650;line-height:1.25;font-variant-numeric:tabular-nums}
.tile small{font-weight:400;color:var(--soft)}
.tile span{color:var(--soft);font-size:.82rem}
.charts{display:grid;gap:14px;margin-top:14px}
figure{margin:0;padding:14px 14px 8px;min-width:0}
figcaption{display:flex;flex-wrap:wrap;gap:2px 14px;align-items:baseline;font-size:.88rem;margin-bottom:6px}
figcaption strong{font-size:.98rem}
figcaption i{font-style:normal;color:var(--soft)}
figcaption i::before{content:"";display:inline-block;width:10px;height:3px;border-radius:2px;margin-right:6px;vertical-align:.2em;background:var(--c)}
figcaption output{margin-left:auto;color:var(--soft);font-variant-numeric:tabular-nums}
svg{display:block;width:100%;height:auto;touch-action:pan-y}
svg text{font:11px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--soft);font-variant-numeric:tabular-nums}
@media(max-width:520px){svg text{font-size:13.5px}}
/* Two charts a row; of an odd number, the last three share one. */
@media(min-width:886px){
.charts{grid-template-columns:repeat(6,minmax(0,1fr))}.charts>*{grid-column:span 3}
.charts>:first-child:nth-last-child(odd)~:nth-last-child(-n+3){grid-column:span 2}
.charts>:first-child:nth-last-child(odd)~:nth-last-child(-n+3) text{font-size:13.5px}}
.grid{stroke:var(--line);stroke-width:1;fill:none}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.faint{stroke-width:1;opacity:.38}
.line.s0{stroke:var(--s0)}.line.s1{stroke:var(--s1)}.line.s2{stroke:var(--s2)}
.dot.s0{fill:var(--s0)}.dot.s1{fill:var(--s1)}.dot.s2{fill:var(--s2)}
.cursor{stroke:var(--soft);stroke-width:1;stroke-dasharray:3 3}
.samples{display:grid;gap:10px}
.samples.brief{grid-template-columns:repeat(auto-fill,minmax(150px,1fr))}
.sample{padding:12px 14px;min-width:0}
.sample small{color:var(--soft)}
pre{margin:6px 0 0;white-space:pre-wrap;overflow-wrap:anywhere;font:13.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre .prompt{color:var(--soft)}
details{padding:12px 14px}summary{cursor:pointer;font-weight:600}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 18px;margin:0;padding:14px}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
footer{color:var(--soft);font-size:.82rem;margin-top:34px}
)css";

inline constexpr const char* kReportScript = R"js(
for(const svg of document.querySelectorAll("svg[data-points]")){
  const [x0,x1]=svg.dataset.range.split(" ").map(Number),[l,r,t,b]=svg.dataset.frame.split(" ").map(Number);
  const box=svg.viewBox.baseVal,out=svg.closest("figure").querySelector("output"),percent=svg.hasAttribute("data-percent");
  const series=svg.dataset.points.split("|").map(s=>{const i=s.indexOf(":");return{name:s.slice(0,i),pts:s.slice(i+1).split(" ").filter(Boolean).map(p=>p.split(",").map(Number))}}).filter(s=>s.pts.length);
  if(!series.length)continue;
  const cursor=document.createElementNS("http://www.w3.org/2000/svg","path");cursor.setAttribute("class","cursor");
  const show=e=>{
    const at=svg.getBoundingClientRect(),x=x0+((e.clientX-at.left)/at.width*box.width-l)/(box.width-l-r)*(x1-x0);
    const near=s=>s.pts.reduce((a,p)=>Math.abs(p[0]-x)<Math.abs(a[0]-x)?p:a);
    const shown=series.length>1?series.slice(-2):series,first=near(shown[0]);
    cursor.setAttribute("d",`M${l+(first[0]-x0)/(x1-x0)*(box.width-l-r)} ${t}V${box.height-b}`);svg.append(cursor);
    out.textContent=`step ${Math.round(first[0])}: `+shown.map(s=>{const v=near(s)[1];return percent?(100*v).toFixed(1)+" %":+v.toPrecision(4)}).join(" / ");
  };
  svg.addEventListener("pointermove",show);svg.addEventListener("pointerdown",show);
  svg.addEventListener("pointerleave",()=>{cursor.remove();out.textContent=""});
}
)js";

}  // namespace weft
